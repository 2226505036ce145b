package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
)

var write = flag.Bool("write", false, "write into docs/tools.md what commands print")

const page = "../../docs/tools.md"

var (
	blocks   = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")
	fileName = regexp.MustCompile("`([\\w.]+)`:\n\n$")
)

// The page's commands run, in order and in one directory with the files that the page shows, and print what it shows.
func TestCommandsPrintWhatThePageShows(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "ratelimit"), ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var shown strings.Builder
	printed, at, compared := "", 0, 0
	for _, b := range blocks.FindAllSubmatchIndex(text, -1) {
		before, kind, body := string(text[:b[0]]), string(text[b[2]:b[3]]), string(text[b[4]:b[5]])
		shown.Write(text[at:b[4]])
		at = b[4]
		switch kind {
		case "yaml":
			name := fileName.FindStringSubmatch(before)
			if name == nil {
				t.Fatalf("no name stands in front of the file:\n%s", body)
			}
			if err := os.WriteFile(filepath.Join(dir, name[1]), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh":
			if strings.HasPrefix(body, "go build") {
				continue // as above
			}
			c := exec.Command("bash", "-c", body)
			c.Dir, c.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, _ := c.CombinedOutput() // what it prints tells whether it failed
			printed = string(out)
		case "text":
			if compared++; body != printed && !*write {
				t.Errorf("the page shows\n%s\nbut the commands print\n%s\ngo test -run PageShows -write . corrects the page", body, printed)
			}
			shown.WriteString(printed)
			at = b[5]
		}
	}
	shown.Write(text[at:])
	if compared == 0 {
		t.Fatal("the premise: the page shows what commands print")
	}
	if *write {
		if err := os.WriteFile(page, []byte(shown.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Each command that the page's table shows is one of the program, with flags that it has.
func TestThePageNamesCommandsAndFlagsThatExist(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?m)^\\| `ratelimit (\\w+)([^`]*)`").FindAllStringSubmatch(string(text), -1)
	if len(shown) < 8 {
		t.Fatalf("the premise: the table has 8 commands or more, and %d were found", len(shown))
	}
	for _, row := range shown {
		i := slices.IndexFunc(table.Commands, func(c cli.Command) bool { return c.Name == row[1] })
		if i < 0 {
			t.Errorf("the page shows %q, which is no command", row[1])
			continue
		}
		flags := flag.NewFlagSet(row[1], flag.ContinueOnError)
		table.Commands[i].New(flags)
		for _, name := range regexp.MustCompile(` --?([a-z-]+)`).FindAllStringSubmatch(row[2], -1) {
			if flags.Lookup(name[1]) == nil {
				t.Errorf("the page shows -%s, which %s does not have", name[1], row[1])
			}
		}
	}
}
