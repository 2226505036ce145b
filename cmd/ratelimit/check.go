package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

func newCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Report the mistakes of policy files",
		Long: `check reports the mistakes of policy files, each with file, line, column and
code, and the line of the file. A file without mistakes is one line with its
policies. The file - is standard input. Of mistakes in the syntax of YAML, a
file's first is reported, and of unknown fields a policy's first.

The exit code is 1 if there are mistakes, and 3 if a file can't be read.`,
		Example: "  ratelimit check policies.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE:    check,
	}
}

// checkResult is what check found.
type checkResult struct {
	Files []checkedFile `json:"files"` // in the order of the command line
}

// checkedFile is what check found in a file.
type checkedFile struct {
	File       string    `json:"file"`                 // its name, as it was given
	OK         bool      `json:"ok"`                   // it was read and has no mistakes
	Policies   []string  `json:"policies"`             // the names of its policies, if it has no mistakes
	Mistakes   []mistake `json:"mistakes"`             // all of them
	Unreadable string    `json:"unreadable,omitempty"` // why the file can't be read
}

// mistake is one mistake.
type mistake struct {
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1; 0 if only the line is known
	Field  string `json:"field"`  // of the policy, such as policies[0].limits[1]
	Code   string `json:"code"`   // as docs/errors.md has it, such as RL104
	Text   string `json:"text"`   // its place, what is wrong there, and the line of the file
}

func check(cmd *cobra.Command, files []string) error {
	result := new(checkResult)
	for _, file := range files {
		policies, err := loadPolicies(cmd, file)
		c := checkedFile{File: file, OK: err == nil, Policies: slices.AppendSeq([]string{}, maps.Keys(policies)), Mistakes: mistakesOf(file, err)}
		if slices.Sort(c.Policies); err != nil && len(c.Mistakes) == 0 {
			c.Unreadable = err.Error()
		}
		result.Files = append(result.Files, c)
	}
	if err := printResult(cmd, result); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(result.Files, func(c checkedFile) bool { return c.Unreadable != "" }):
		return errors.New("not every file can be read")
	case slices.ContainsFunc(result.Files, func(c checkedFile) bool { return !c.OK }):
		return errFound
	}
	return nil
}

func (r *checkResult) Text(w *show.Writer) {
	for _, c := range r.Files {
		switch {
		case c.OK:
			w.Line("%s: no mistakes in %s", show.Visible(c.File), strings.Join(c.Policies, ", "))
		case c.Unreadable != "":
			w.Line("%s", show.Visible(c.Unreadable))
		}
		for _, m := range c.Mistakes {
			for line := range strings.SplitSeq(m.Text, "\n") {
				w.Line("%s", show.Visible(line))
			}
		}
	}
}

// mistakesOf returns the mistakes of a policy file, or none if err says that it
// can't be read.
func mistakesOf(file string, err error) []mistake {
	list := make([]mistake, 0)
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return list
	}
	for _, each := range joined.Unwrap() {
		if found := (*policyfile.Error)(nil); errors.As(each, &found) {
			m := *found
			m.File = file // standard input has none
			list = append(list, mistake{m.Line, m.Column, m.Field, m.Code(), m.Error()})
		}
	}
	return list
}

// loadPolicies reads a policy file, or standard input if it is -. Mistakes are
// those of package policyfile.
func loadPolicies(cmd *cobra.Command, file string) (map[string]core.Policy, error) {
	if file == "-" {
		return policyfile.Load(cmd.InOrStdin())
	}
	return policyfile.LoadFile(file)
}
