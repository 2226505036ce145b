package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

var checkCommand = cli.Command{
	Name: "check", Args: "FILE…", Least: 1, Most: -1,
	About: "report every mistake of policy files",
	Details: `Each mistake is a line with file, line and column. A file without mistakes is one line. The file - is standard input.
Of mistakes in the syntax of YAML, a file's first is reported.
The exit code is 1 if there are mistakes, and 3 if a file can't be read.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		asJSON := flags.Bool("json", false, "print a JSON object with the mistakes of each file")
		return func(_ context.Context, s cli.Streams, args []string) error { return check(s, args, *asJSON) }
	},
}

// checked is what check found in a file.
type checked struct {
	File       string    `json:"file"`
	OK         bool      `json:"ok"`
	Policies   []string  `json:"policies"`
	Mistakes   []mistake `json:"mistakes"`
	Doubts     []string  `json:"doubts,omitempty"` // which are no mistakes
	Unreadable string    `json:"unreadable,omitempty"`
}

// mistake is one mistake.
type mistake struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Field  string `json:"field"`
	Code   string `json:"code"`
	Text   string `json:"text"`
}

func check(s cli.Streams, files []string, asJSON bool) error {
	result := nothing
	list := make([]checked, 0, len(files))
	for _, file := range files {
		policies, err := loadPolicies(s.In, file)
		c := checked{File: file, OK: err == nil, Policies: slices.Sorted(maps.Keys(policies)), Mistakes: mistakesOf(err)}
		switch {
		case err == nil:
		case len(c.Mistakes) == 0:
			c.Unreadable, result = err.Error(), unreadable
		case result == nothing:
			result = mistaken
		}
		for _, name := range c.Policies {
			c.Doubts = append(append(c.Doubts, unmade(policies[name])...), misspelt(policies[name])...)
		}
		list = append(list, c)
		if asJSON {
			continue
		}
		if err != nil {
			_, _ = fmt.Fprintln(s.Out, err)
		} else {
			_, _ = fmt.Fprintf(s.Out, "%s: no mistakes in %s: %s\n", file, policyCount(len(policies)), strings.Join(c.Policies, ", "))
			for _, doubt := range c.Doubts {
				_, _ = fmt.Fprintf(s.Out, "  doubtful: %s\n", doubt)
			}
		}
	}
	if asJSON {
		if err := writeJSON(s.Out, map[string]any{"files": list}); err != nil {
			return err
		}
	}
	switch result {
	case mistaken:
		return cli.ErrFound
	case unreadable:
		return errors.New("some files can't be read")
	}
	return nil
}

// What check found, the worst last.
const (
	nothing = iota
	mistaken
	unreadable
)

func policyCount(n int) string {
	if n == 1 {
		return "1 policy"
	}
	return show.Count(int64(n)) + " policies"
}

// mistakesOf returns the mistakes of an error of policyfile, or none if the file could not be read.
func mistakesOf(err error) []mistake {
	list := make([]mistake, 0)
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return list
	}
	for _, each := range joined.Unwrap() {
		if m, ok := errors.AsType[*policyfile.Error](each); ok {
			list = append(list, mistake{m.Line, m.Column, m.Field, m.Code(), m.Error()})
		}
	}
	return list
}

// loadPolicies reads a policy file, or standard input if it is -.
func loadPolicies(in io.Reader, file string) (map[string]core.Policy, error) {
	if file == "-" {
		return policyfile.Load(in)
	}
	return policyfile.LoadFile(file)
}

// writeJSON writes v over several lines.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
