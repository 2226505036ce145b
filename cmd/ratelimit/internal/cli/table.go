// Package cli runs the command of a table that a command line names. The table
// is also what help texts and the completion of shells are made of.
//
// It reads flags by package flag of the standard library: flags with one dash
// or two, which is enough for those of redis-cli too, and no requirement for a
// tool that people run on servers.
package cli

import (
	"context"
	"flag"
	"io"
	"slices"
)

// Streams is what a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Terminal bool // Err is a terminal, so it can show progress
}

// Run does the work of a command. args are what the command line has beside
// flags, which may stand between them.
type Run func(ctx context.Context, s Streams, args []string) error

// Command is one row of the table.
type Command struct {
	Name    string
	Args    string // what follows the flags, such as FILE…
	About   string // one line
	Details string // lines for its own help, without flags
	Least   int    // how many args it needs
	Most    int    // how many it takes; -1: any number

	// New defines the command's flags, and returns what runs after they are
	// parsed. Its usages name their values in back quotes, as those of package
	// flag do.
	New func(*flag.FlagSet) Run
}

// Table is a program: its name and commands.
type Table struct {
	Name     string
	About    string
	Commands []Command

	// JSON describes what commands print with -json: an introduction, and
	// sections whose first line is "## " and their command.
	JSON string
}

// builtIn are the commands that Table has itself.
var builtIn = []Command{
	{Name: "completion", Args: "bash|zsh|fish", About: "print a script that completes command lines", Details: `Load it with one of these:

  source <(ratelimit completion bash)
  source <(ratelimit completion zsh)
  ratelimit completion fish | source
`},
	{Name: "help", Args: "[COMMAND | json [COMMAND]]", About: "print this text, that of a command, or the members of its JSON"},
	{Name: "version", About: "print the versions of the program and of Go"},
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

// flags returns the flags of a command, sorted by name.
func (c Command) flags() (list []*flag.Flag) {
	if c.New == nil {
		return nil
	}
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	c.New(flags)
	flags.VisitAll(func(f *flag.Flag) { list = append(list, f) })
	return list
}
