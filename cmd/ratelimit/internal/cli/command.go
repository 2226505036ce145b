// Package cli runs the command of a table that a command line names. The table is also what help texts and the completion of shells
// are made of.
//
// It reads flags by package flag of the standard library: flags with one dash or two, which is enough for those of redis-cli too,
// and no requirement for a tool that people run on servers.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Streams is what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Terminal bool // Err is a terminal, so it can show progress
}

// Run does the work of a command. args are what the command line has beside flags, which may stand between them.
type Run func(ctx context.Context, s Streams, args []string) error

// Command is one row of the table.
type Command struct {
	Name    string
	Args    string // what follows the flags, such as FILE…
	About   string // one line
	Details string // lines for its own help, without flags
	Least   int    // how many args it needs
	Most    int    // how many it takes; -1: any number

	// New defines the command's flags, and returns what runs after they are parsed. Its usages name their values in back quotes,
	// as those of package flag do.
	New func(*flag.FlagSet) Run
}

// Table is a program: its name and commands.
type Table struct {
	Name     string
	About    string
	Commands []Command
}

// Run runs the command that args name, and returns the exit code.
func (t Table) Run(ctx context.Context, s Streams, args []string) int {
	err := t.run(ctx, s, args)
	if err != nil && !errors.Is(err, ErrFound) {
		_, _ = fmt.Fprintf(s.Err, "%s: %v\n", t.Name, err)
	}
	return codeOf(err)
}

func (t Table) run(ctx context.Context, s Streams, args []string) error {
	if len(args) == 0 {
		_, _ = io.WriteString(s.Err, t.help())
		return Misuse("name a command")
	}
	name, args := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return t.runHelp(s, args)
	case "completion":
		return t.runCompletion(s, args)
	}
	c, err := t.find(name)
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run := c.New(flags)
	args, err = c.parse(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return t.runHelp(s, []string{name})
	case err != nil:
		return err
	}
	switch {
	case len(args) < c.Least:
		return Misuse("%s needs %s (see %s help %s)", name, c.Args, t.Name, name)
	case c.Most >= 0 && len(args) > c.Most:
		return Misuse("%s does not take %q (see %s help %s)", name, args[c.Most], t.Name, name)
	}
	return run(ctx, s, args)
}

// builtIn are the commands that Table has itself.
var builtIn = []Command{
	{Name: "completion", Args: "bash|zsh|fish", About: "print a script that completes command lines", Details: `Load it with one of these:

  source <(ratelimit completion bash)
  source <(ratelimit completion zsh)
  ratelimit completion fish | source
`},
	{Name: "help", Args: "[COMMAND]", About: "print this text, or that of a command"},
}

// all returns the commands, with those that t has itself.
func (t Table) all() []Command { return slices.Concat(t.Commands, builtIn) }

// find returns the command of a name.
func (t Table) find(name string) (Command, error) {
	var names []string
	for _, c := range t.all() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Command{}, Misuse("%q is not a command%s (see %s help)", name, hint(name, names, ""), t.Name)
}

// parse parses flags, also between and after other arguments. Everything after -- is an argument.
func (c Command) parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		before := args
		if err := flags.Parse(args); err != nil {
			return nil, c.flagError(flags, err)
		}
		args = flags.Args()
		if ended := len(before) - len(args); ended > 0 && before[ended-1] == "--" {
			return append(rest, args...), nil
		}
		if len(args) == 0 {
			return rest, nil
		}
		rest, args = append(rest, args[0]), args[1:]
	}
}

// flagError is what is wrong with a flag, with the nearest one if it is not known.
func (c Command) flagError(flags *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return Misuse("%s: %v", c.Name, err)
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return Misuse("%s has no flag -%s%s", c.Name, name, hint(name, names, "-"))
}
