package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Run runs the command that args name, and returns the exit code.
func (t Table) Run(ctx context.Context, s Streams, args []string) int {
	err := t.run(ctx, s, args)
	if err != nil && !errors.Is(err, ErrFound) {
		_, _ = fmt.Fprintf(s.Err, "%s: %s\n", t.Name, withoutPasswords(err.Error()))
	}
	return codeOf(err)
}

// credentials are a user and a password before a host, as in a URL that was given where a host, a number or nothing belongs.
var credentials = regexp.MustCompile(`[^\s"'/]*:[^\s"']*@`)

// withoutPasswords returns a message without what could be a password in a URL.
func withoutPasswords(text string) string { return credentials.ReplaceAllString(text, "…@") }

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
	if err.Error() == "flag needs an argument: -h" { // -h is a host, as in redis-cli; without one it asks for help
		return flag.ErrHelp
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return Misuse("%s: %v", c.Name, err)
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return Misuse("%s has no flag -%s%s", c.Name, name, hint(name, names, "-"))
}
