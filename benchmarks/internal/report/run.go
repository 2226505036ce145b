package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Run is what a run of the benchmarks on one machine gave for the targets.
type Run struct {
	Machine Machine  `json:"machine"`
	Date    string   `json:"date"`
	Commit  string   `json:"commit"` // of the measured tree
	Rounds  string   `json:"rounds"`
	Targets []Target `json:"targets"`
}

// Save writes the run to a file in dir that is named after the processor, in place of an older run on it.
func (r Run) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, slug(r.Machine)+".json"), append(text, '\n'), 0o644)
}

// Stored are the runs in dir, that of the machine m first.
func Stored(dir string, m Machine) ([]Run, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var first, others []Run
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r Run
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if slug(r.Machine) == slug(m) {
			first = append(first, r)
		} else {
			others = append(others, r)
		}
	}
	return slices.Concat(first, others), nil
}

var (
	frequency = regexp.MustCompile(`,? *\d+ MHz`)
	notInSlug = regexp.MustCompile(`(\(r\)|\(tm\)|[^a-z0-9])+`)
)

// slug is a name of the machine for files: its processor without the clock, which may differ a little from run to run.
func slug(m Machine) string {
	name := strings.ToLower(frequency.ReplaceAllString(m.Processor, ""))
	return fmt.Sprintf("%s-%d-cores", strings.Trim(notInSlug.ReplaceAllString(name, "-"), "-"), m.Cores)
}

// Machines is a list of the runs' machines. Each line says how many of the first run's targets its run meets, and links to the file that has
// their values and the contenders.
func Machines(runs []Run) string {
	var b strings.Builder
	for _, r := range runs {
		m := r.Machine
		fmt.Fprintf(&b, "- %s: %s, %s, GOMAXPROCS %d, Redis %s; on %s, at commit %s, in %s. It meets %d of %d targets: "+
			"[values, and versions of the contenders](benchmarks/%s.json).\n",
			m.Name(), m.Kernel, m.Go, m.GOMAXPROCS, m.Redis, r.Date, r.Commit, r.Rounds, r.met(runs[0].Targets), len(runs[0].Targets), slug(m))
	}
	return b.String()
}

// met is how many of the targets the run meets. It misses those that it did not measure.
func (r Run) met(targets []Target) (n int) {
	for _, t := range targets {
		if i := slices.IndexFunc(r.Targets, t.isOf); i >= 0 && t.isMetBy(r.Targets[i].Value) {
			n++
		}
	}
	return n
}
