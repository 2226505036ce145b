package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"regexp"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// Run runs the command that args name, and returns the exit code.
func (t Table) Run(ctx context.Context, s Streams, args []string) int {
	if s.In != nil {
		s.In = Reader(ctx, s.In)
	}
	err := interruption(ctx, t.run(ctx, s, args))
	if err != nil && !errors.Is(err, ErrFound) {
		message := t.Name + ": " + withoutPasswords(strings.TrimPrefix(err.Error(), t.Name+": "))
		for line := range strings.SplitSeq(message, "\n") {
			_ = show.Paragraph(s.Err, 4, show.Visible(line))
		}
	}
	return codeOf(err)
}

// credentials are a user and a password before a host, as in a URL that was
// given where a host, a number or nothing belongs.
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
	case "version", "-version", "--version":
		return t.runVersion(s, args)
	}
	if strings.HasPrefix(name, "-") {
		return Misuse("the command comes first, and then its flags (see %s help)", t.Name)
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
		return Misuse("%s takes %s, and there are %d arguments: quote one that has spaces (see %s help %s)", name, c.takes(), len(args), t.Name, name)
	}
	return run(ctx, s, args)
}

// parse parses flags, also between and after other arguments. Everything after
// -- is an argument.
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

// takes is what a command takes beside flags.
func (c Command) takes() string {
	if c.Args == "" {
		return "flags alone"
	}
	return c.Args
}

// reads is what a flag takes, for a value that can't be read.
func reads(f *flag.Flag) string {
	kind, usage := flag.UnquoteUsage(f)
	if kind == "" {
		return "it takes no value"
	}
	return "this value can't be read: it is " + usage + ", such as " + f.DefValue
}

// badValue finds the value that stands in an error of package flag. It may be a
// password, as after a -p that means one elsewhere.
var badValue = regexp.MustCompile(`(?s)^invalid (?:boolean )?value ".*" for (?:flag )?(-[\w-]+): (.*)$`)

// flagError is what is wrong with a flag, with the nearest one if it is not
// known. It shows no value, and no word that may be one.
func (c Command) flagError(flags *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	text := err.Error()
	if text == "flag needs an argument: -h" { // -h is a host, as in redis-cli; without one it asks for help
		return flag.ErrHelp
	}
	if bad := badValue.FindStringSubmatch(text); bad != nil {
		if bad[2] == "parse error" {
			bad[2] = reads(flags.Lookup(strings.TrimPrefix(bad[1], "-")))
		}
		return Misuse("%s %s: %s", c.Name, bad[1], bad[2])
	}
	name, unknown := strings.CutPrefix(text, "flag provided but not defined: -")
	if !unknown {
		if strings.HasPrefix(text, "bad flag syntax") {
			text = "a flag is - or --, its name, and a value after a space or ="
		}
		return Misuse("%s: %s", c.Name, text)
	}
	var names []string
	flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if hint := hint(name, names, "-"); hint != "" {
		return Misuse("%s has no flag -%s%s", c.Name, name, hint)
	}
	if letter := name[:1]; flags.Lookup(letter) != nil { // -p6379, and -aPASSWORD
		return Misuse("%s has no flag -%s…: a value follows a space, as in -%s VALUE", c.Name, letter, letter)
	}
	return Misuse("%s has no flag -%s (see help %s)", c.Name, name, c.Name)
}
