package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/internal/spelling"
)

// Exit codes, which the help of the root command lists.
const (
	exitDone        = 0
	exitFound       = 1   // the command did its work and found something, or did not find what was named
	exitMisuse      = 2   // the command line is wrong, and nothing was done
	exitUnavailable = 3   // a file or a server can't be read or reached
	exitInterrupted = 130 // by SIGINT or SIGTERM
)

// errFound makes a command end with exitFound. What was found is printed
// already.
var errFound = errors.New("found")

// misuseError is a mistake in the command line.
type misuseError struct{ error }

// misuse returns an error that makes a command end with exitMisuse.
func misuse(format string, args ...any) error { return misuseError{fmt.Errorf(format, args...)} }

// run runs the command that args name, and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root, began := newRoot(), false
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !began && !errors.As(err, new(misuseError)) && cmd != root { // cobra has counted the arguments
		err = misuse("%s %w (see %s --help)", cmd.Name(), err, cmd.CommandPath())
	}
	if err != nil && !errors.Is(err, errFound) {
		w := show.For(errs)
		for line := range strings.SplitSeq(strings.TrimSpace(withoutPasswords(err.Error())), "\n") {
			w.Line("%s", show.Visible(strings.TrimPrefix(line, "ratelimit: ")))
		}
		_, _ = fmt.Fprint(errs, "ratelimit: "+w.String())
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFound):
		return exitFound
	case !began, errors.As(err, new(misuseError)): // cobra has found a mistake before any work
		return exitMisuse
	case ctx.Err() != nil:
		return exitInterrupted
	}
	return exitUnavailable
}

// newRoot returns the command line.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ratelimit",
		Short: "Say who is limited and why, check policy files, and replay access logs through policies",
		Long: `ratelimit says who is limited and why, changes limits without a deploy, checks
policy files, and replays access logs through policies.

Exit codes:
  0    done
  1    done, and found what it looked for, such as a denial, mistakes or faults,
       or did not find what was named
  2    the command line is wrong; nothing was done
  3    a file or a server can't be read or reached
  130  interrupted; what was done is said`,
		Version:       version(),
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return misuse("name a command")
		},
	}
	root.SetVersionTemplate("ratelimit {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().Bool("json", false, "print the result as JSON, with the members that the text has")
	root.AddCommand(
		newCheckCommand(), newGetCommand(), newListCommand(), newTopCommand(), newResetCommand(), newOverrideCommand(), newBlockCommand(),
		newUnblockCommand(), newReplayCommand(), newDoctorCommand(), newVersionCommand(),
	)
	return root
}

// result is what a command prints. As JSON it is its exported fields.
type result interface {
	// Text writes the result for people to read.
	Text(w *show.Writer)
}

// printResult prints a result as text, or as JSON if --json is given.
func printResult(cmd *cobra.Command, r result) error {
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	w := show.For(cmd.OutOrStdout())
	r.Text(w)
	_, err := io.WriteString(cmd.OutOrStdout(), w.String())
	return err
}

// flagError returns the error for a flag that can't be read, with the flag that
// may be meant. It leaves out letters that follow a dash, because -a and -p of
// other tools have a password there.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return misuse("%w (see %s --help)", err, cmd.CommandPath())
	}
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		for _, before := range []string{"", "h"} { // -html is -h, and then tml
			if name, _, _ := strings.Cut(before+letters, "="); cmd.Flags().Lookup(name) != nil {
				return misuse("flags have two dashes: --%s", name)
			}
		}
		return misuse("%s has no flag -%c (see %s --help)", cmd.Name(), letters[0], cmd.CommandPath())
	}
	name := unknown.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(name, names); near != "" {
		return misuse("%s has no flag --%s: did you mean --%s?", cmd.Name(), name, near)
	}
	return misuse("%s has no flag --%s (see %s --help)", cmd.Name(), name, cmd.CommandPath())
}

// nearest returns the name that a misspelt one may mean, or "".
func nearest(name string, names []string) (near string) {
	fewest := max(1, len(name)/3) + 1
	for _, other := range names {
		if n := spelling.Distance(strings.ToLower(name), strings.ToLower(other)); n < fewest {
			near, fewest = other, n
		}
	}
	return near
}

// credentials are a user and a password before a host, as in a URL.
var credentials = regexp.MustCompile(`[^\s"'/]*:[^\s"']*@`)

// withoutPasswords returns a message without what could be the password of a
// URL. Those of our own examples stay.
func withoutPasswords(message string) string {
	return credentials.ReplaceAllStringFunc(message, func(found string) string {
		if found == "redis://user:password@" || found == "redis://:password@" {
			return found
		}
		return "…@"
	})
}
