package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

var write = flag.Bool("write", false, "write into docs/tools.md and docs/plans.md what commands print")

const page = "../../docs/tools.md"

var (
	blocks   = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")
	fileName = regexp.MustCompile("`([\\w.]+)`:\n\n$")
)

// The page's commands run, in order and in one directory with the files that
// the page shows, and print what it shows. Each block begins with the buckets
// of stage.clients or stage.customers. Of what is printed, stage.run changes
// addresses and how long denials were counted, and nothing else.
func TestCommandsPrintWhatThePageShows(t *testing.T) {
	s := newStage(t)
	t.Run("tools.md", func(t *testing.T) {
		s.print(t, page, func(t *testing.T) {
			s.clients(t)
			s.follow(t, redisstore.New(s.redis, redisstore.WithTimeout(time.Minute)))
		})
	})
	t.Run("plans.md", func(t *testing.T) { s.print(t, "../../docs/plans.md", s.customers) })
}

// print runs the commands of a page.
func (s *stage) print(t *testing.T, page string, prepare func(*testing.T)) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	printed, at, compared := "", 0, 0
	for _, b := range blocks.FindAllSubmatchIndex(text, -1) {
		before, kind, body := string(text[:b[0]]), string(text[b[2]:b[3]]), string(text[b[4]:b[5]])
		shown.Write(text[at:b[4]])
		at = b[4]
		switch kind {
		case "go":
			printed = "" // docs runs programs
		case "yaml":
			s.write(t, before, body)
		case "sh":
			if strings.HasPrefix(body, "go install") {
				continue // as newStage does
			}
			printed = s.run(t, body, prepare)
		case "text":
			if printed == "" {
				break
			}
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

// write writes a file that a page shows after its name.
func (s *stage) write(t *testing.T, before, body string) {
	t.Helper()
	name := fileName.FindStringSubmatch(before)
	if name == nil {
		t.Fatalf("no name stands in front of the file:\n%s", body)
	}
	if err := os.WriteFile(filepath.Join(s.dir, name[1]), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The page has a block that runs each command, so that what it prints is shown.
func TestThePageShowsEveryCommand(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	run := make(map[string]bool)
	for _, b := range blocks.FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile(`\bratelimit ([a-z]+)`).FindAllStringSubmatch(b[2], -1) {
			run[name[1]] = b[1] == "sh" || run[name[1]]
		}
	}
	for _, c := range table.Commands {
		if !run[c.Name] {
			t.Errorf("%s has no block that runs %s", page, c.Name)
		}
	}
}
