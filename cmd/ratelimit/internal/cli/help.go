package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// help is the text of help without a command.
func (t Table) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n", t.About, t.Name)
	for _, c := range t.all() {
		fmt.Fprintf(&b, "  %-11s %s\n", c.Name, c.About)
	}
	fmt.Fprintf(&b, "\n%s\n%s help COMMAND explains one.\n", exitCodes, t.Name)
	return b.String()
}

func (t Table) runHelp(s Streams, args []string) error {
	if len(args) == 0 {
		_, err := io.WriteString(s.Out, t.help())
		return err
	}
	c, err := t.find(args[0])
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.Out, t.helpOf(c))
	return err
}

// helpOf is the text of help about a command.
func (t Table) helpOf(c Command) string {
	var b strings.Builder
	flags := c.flags()
	options := ""
	if len(flags) > 0 {
		options = " [FLAGS]"
	}
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s\n", c.Name, c.About, strings.TrimRight(t.Name+" "+c.Name+options+" "+c.Args, " "))
	if c.Details != "" {
		b.WriteString("\n" + strings.TrimRight(c.Details, "\n") + "\n")
	}
	if len(flags) > 0 {
		b.WriteString("\nFlags:\n")
	}
	for _, f := range flags {
		value, usage := flag.UnquoteUsage(f)
		if value != "" {
			value = " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, "  -%s%s\n        %s\n", f.Name, value, usage)
	}
	return b.String()
}
