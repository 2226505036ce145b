package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const (
	begin = "<!-- measured: from here to the end mark everything is written by benchmarks/run -->"
	end   = "<!-- end of measured -->"
)

// fresh is the page where there was none.
const fresh = "# Benchmarks\n\n`benchmarks/run` measures this library beside its peers and writes this page.\n\n" + begin + "\n" + end + "\n"

// WriteMeasured replaces the measured part of a page and keeps the rest.
func WriteMeasured(path, measured string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(fresh), nil
	}
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s: the lines %q and %q, between which to write, are missing", path, begin, end)
	}
	page := head + begin + "\n\n" + strings.TrimSpace(measured) + "\n\n" + end + tail
	return os.WriteFile(path, []byte(page), 0o644)
}
