package cli

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

func (t Table) runCompletion(s Streams, args []string) error {
	shells := map[string]func() string{"bash": t.bash, "zsh": t.zsh, "fish": t.fish}
	if len(args) == 1 && shells[args[0]] != nil {
		_, err := io.WriteString(s.Out, shells[args[0]]())
		return err
	}
	return Misuse("completion needs the name of a shell: bash, zsh or fish")
}

// names returns the names of all commands, separated by spaces.
func (t Table) names() string {
	var names []string
	for _, c := range t.all() {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// words returns what completes an argument of a built-in command, or "".
func (t Table) words(c Command) string {
	switch c.Name {
	case "completion":
		return "bash zsh fish"
	case "help":
		if t.JSON != "" {
			return t.names() + " json"
		}
		return t.names()
	}
	return ""
}

// bash completes commands, their flags, and file names.
func (t Table) bash() string {
	var b strings.Builder
	fmt.Fprintf(&b, `_%s() {
  local cur=${COMP_WORDS[COMP_CWORD]} words="" IFS=$' \t\n'
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "%s" -- "$cur"))
    return
  fi
  case ${COMP_WORDS[1]} in
`, t.Name, t.names())
	for _, c := range t.all() {
		if words := t.words(c); words != "" {
			fmt.Fprintf(&b, "    %s) words=%s ;;\n", c.Name, quoted(words))
			continue
		}
		fmt.Fprintf(&b, "    %s) [[ $cur == -* ]] && words=%s ;;\n", c.Name, quoted(strings.Join(dashed(c), " ")))
	}
	fmt.Fprintf(&b, `  esac
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    return
  fi
  IFS=$'\n'
  COMPREPLY=($(compgen -f -- "$cur"))
}
complete -o filenames -F _%[1]s %[1]s
`, t.Name)
	return b.String()
}

// zsh completes commands, their flags with what they mean, and file names.
func (t Table) zsh() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %[1]s\n_%[1]s() {\n  local -a commands=(\n", t.Name)
	for _, c := range t.all() {
		fmt.Fprintf(&b, "    %s\n", quoted(c.Name+":"+c.About))
	}
	b.WriteString("  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n  case ${words[2]} in\n")
	for _, c := range t.all() {
		if words := t.words(c); words != "" {
			fmt.Fprintf(&b, "    %s) _values argument %s ;;\n", c.Name, words)
			continue
		}
		fmt.Fprintf(&b, "    %s) _arguments -S '2:: :'", c.Name)
		for _, f := range c.flags() {
			value, usage := flag.UnquoteUsage(f)
			spec := "*-" + f.Name + "[" + escapeZsh(usage) + "]"
			if value != "" {
				spec += ":" + escapeZsh(value) + ":_files"
			}
			b.WriteString(" \\\n      " + quoted(spec))
		}
		b.WriteString(" \\\n      '*:file:_files' ;;\n")
	}
	fmt.Fprintf(&b, "  esac\n}\nif [[ $funcstack[1] == _%[1]s ]]; then\n  _%[1]s\nelse\n  compdef _%[1]s %[1]s\nfi\n", t.Name)
	return b.String()
}

func escapeZsh(s string) string {
	return strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`).Replace(s)
}

// fish completes commands and their flags, with what they mean. It completes
// file names by itself.
func (t Table) fish() string {
	var b strings.Builder
	for _, c := range t.all() {
		fmt.Fprintf(&b, "complete -c %s -f -n __fish_use_subcommand -a %s -d %s\n", t.Name, c.Name, quotedFish(c.About))
		seen := "'__fish_seen_subcommand_from " + c.Name + "'"
		if words := t.words(c); words != "" {
			fmt.Fprintf(&b, "complete -c %s -f -n %s -a %s\n", t.Name, seen, quotedFish(words))
		}
		for _, f := range c.flags() {
			value, usage := flag.UnquoteUsage(f)
			needs := ""
			if value != "" {
				needs = " -r"
			}
			fmt.Fprintf(&b, "complete -c %s -n %s -o %s%s -d %s\n", t.Name, seen, f.Name, needs, quotedFish(usage))
		}
	}
	return b.String()
}

// dashed returns a command's flags as they are written.
func dashed(c Command) (names []string) {
	for _, f := range c.flags() {
		names = append(names, "-"+f.Name)
	}
	return names
}

// quoted is s as one word of bash and zsh.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// quotedFish is s as one word of fish.
func quotedFish(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
