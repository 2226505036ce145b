package cli

import (
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// help is the text of help without a command.
func (t Table) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: %s COMMAND [FLAGS] [ARGUMENTS]\n\nCommands:\n", show.Wrap(t.About, helpColumns, 0), t.Name)
	for _, c := range t.all() {
		fmt.Fprintln(&b, show.Wrap(fmt.Sprintf("  %-11s %s", c.Name, c.About), helpColumns, 14))
	}
	fmt.Fprintf(&b, "\n%s\n%[2]s help COMMAND explains one, and %[2]s help json the JSON.\n", exitCodes, t.Name)
	return b.String()
}

func (t Table) runHelp(s Streams, args []string) error {
	if len(args) == 0 {
		_, err := io.WriteString(s.Out, t.help())
		return err
	}
	if args[0] == "json" && t.JSON != "" {
		return t.runHelpJSON(s, args[1:])
	}
	c, err := t.find(args[0])
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.Out, t.helpOf(c))
	return err
}

// runHelpJSON prints the sections of a command in t.JSON, or without a command
// the introduction and which commands have one.
func (t Table) runHelpJSON(s Streams, args []string) error {
	const heading = "\n## "
	introduction, rest, _ := strings.Cut(t.JSON, heading)
	sections := strings.Split(rest, heading)
	var of []string
	for _, section := range sections {
		words := strings.Fields(section)
		switch {
		case len(args) == 0 && !slices.Contains(of, words[0]):
			of = append(of, words[0])
		case len(args) > 0 && words[0] == args[0]:
			of = append(of, section)
		}
	}
	if len(args) == 0 {
		text := laidOut(introduction + "\n" + t.Name + " help json COMMAND prints the members of one of these: " + strings.Join(of, ", ") + ".")
		_, err := fmt.Fprintln(s.Out, text)
		return err
	}
	if of == nil {
		c, err := t.find(args[0])
		if err != nil {
			return err
		}
		return Misuse("%s has no -json (see %s help json)", c.Name, t.Name)
	}
	_, err := io.WriteString(s.Out, strings.Join(of, "\n"))
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
	fmt.Fprintln(&b, show.Wrap(c.Name+": "+c.About, helpColumns, 2))
	fmt.Fprintf(&b, "\nUsage: %s\n", strings.TrimRight(t.Name+" "+c.Name+options+" "+c.Args, " "))
	if c.Details != "" {
		b.WriteString("\n" + laidOut(strings.TrimRight(c.Details, "\n")) + "\n")
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
		if f.Name == "json" && t.JSON != "" {
			usage += " (see help json " + c.Name + ")"
		}
		fmt.Fprintf(&b, "  -%s%s\n%s\n", f.Name, value, show.Wrap("        "+usage, helpColumns, 8))
	}
	return b.String()
}

// laidOut breaks the lines of a command's details for help. Paragraphs are
// filled. An indented line is a row of two columns, whose second one goes on
// below itself, or a command, which goes on after a backslash, so that it can
// be pasted.
func laidOut(details string) string {
	var lines []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			lines, paragraph = append(lines, show.Wrap(paragraph, helpColumns, 0)), ""
		}
	}
	for line := range strings.SplitSeq(details, "\n") {
		if line != "" && line[0] != ' ' && !strings.HasSuffix(paragraph, ":") {
			paragraph = strings.TrimLeft(paragraph+" "+line, " ")
			continue
		}
		end()
		columns := row.FindStringIndex(line)
		switch {
		case line != "" && line[0] != ' ':
			paragraph = line
		case columns != nil && !strings.Contains(line, " # "):
			lines = append(lines, show.Wrap(line, helpColumns, columns[1]))
		default:
			const space = "\x00" // of an argument in quotes
			whole := inQuotes.ReplaceAllStringFunc(line, func(s string) string { return strings.ReplaceAll(s, " ", space) })
			whole = strings.ReplaceAll(show.Wrap(whole, helpColumns-len(` \`), 4), "\n", " \\\n")
			lines = append(lines, strings.ReplaceAll(whole, space, " "))
		}
	}
	end()
	return strings.Join(lines, "\n")
}

// helpColumns is how many columns help has.
const helpColumns = 80

// inQuotes are arguments of a command.
var inQuotes = regexp.MustCompile(`'[^']*'`)

// row is the begin of a line of two columns: up to where the second one begins.
var row = regexp.MustCompile(`^ +\S.*?  +`)
