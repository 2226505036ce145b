//go:build ignore

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
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
		return func(ctx context.Context, s cli.Streams, args []string) error { return check(ctx, s, args, *asJSON) }
	},
}

// checks is what check found.
type checks struct {
	output.Head

	Files []checked `json:"files"` // in the order of the command line
}

// checked is what check found in a file.
type checked struct {
	File       string    `json:"file"`                 // its name, as it was given
	OK         bool      `json:"ok"`                   // it was read and has no mistakes
	Policies   []string  `json:"policies"`             // the names of its policies, if it has no mistakes
	Mistakes   []mistake `json:"mistakes"`             // all of them
	Doubts     []string  `json:"doubts,omitempty"`     // what is no mistake, and perhaps not meant
	Unreadable string    `json:"unreadable,omitempty"` // why the file could not be read
}

// mistake is one mistake.
type mistake struct {
	Line   int    `json:"line"`   // where it is, from 1
	Column int    `json:"column"` // where it is in the line, from 1
	Field  string `json:"field"`  // of the policy, such as policies[0].limits[1]
	Code   string `json:"code"`   // as docs/errors.md has it, such as RL104
	Text   string `json:"text"`   // what is wrong, as check prints it
}

func check(ctx context.Context, s cli.Streams, files []string, asJSON bool) error {
	result := nothing
	list := make([]checked, 0, len(files))
	for _, file := range files {
		policies, err := loadPolicies(s.In, file)
		if ctx.Err() != nil { // it waited for the standard input
			return ctx.Err()
		}
		c := checked{File: file, OK: err == nil, Policies: append([]string{}, slices.Sorted(maps.Keys(policies))...), Mistakes: mistakesOf(err)}
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
			for line := range strings.Lines(err.Error()) {
				_ = show.Paragraph(s.Out, 2, strings.TrimSuffix(line, "\n"))
			}
		} else {
			_ = show.Paragraph(s.Out, 2, fmt.Sprintf("%s: no mistakes in %s: %s", file, policyCount(len(policies)), strings.Join(c.Policies, ", ")))
			for _, doubt := range c.Doubts {
				_ = show.Paragraph(s.Out, 4, "  doubtful: "+doubt)
			}
		}
	}
	if asJSON {
		if err := output.Write(s.Out, &checks{Files: list}); err != nil {
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

// mistakesOf returns the mistakes of an error of policyfile, or none if the
// file could not be read.
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
