// Compare measures this library beside its peers and writes docs/benchmarks.md and its plot.
// benchmarks/run starts the Redis it needs.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/redisinfo"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// A suite is one run: how to measure, and what came of it.
type suite struct {
	server *redisinfo.Server
	rounds int
	round  time.Duration

	targets  []report.Target
	sections strings.Builder
	plot     *report.Plot
}

// cases are measured in this order, which is that of the targets.
var cases = []struct {
	name string
	run  func(*suite, context.Context) error
}{
	{"redis", (*suite).redis},
	{"redis memory", (*suite).redisMemory},
	{"denied", (*suite).denied},
	{"hot key", (*suite).hotKey},
	{"lease", (*suite).lease},
	{"memory", (*suite).memory},
	{"http", (*suite).http},
}

func main() {
	log.SetFlags(0)
	addr := flag.String("redis", "", "address of a Redis server of the run's own: its data is deleted")
	round := flag.Duration("round", 600*time.Millisecond, "length of a round of one contender")
	rounds := flag.Int("rounds", 7, "rounds of each contender in each case")
	docs := flag.String("docs", "", "directory of benchmarks.md and benchmarks.svg; without it the page is printed")
	only := flag.String("only", "", "regular expression of the cases to run, whose part of the page is printed, of: redis, redis memory, denied, hot key, lease, memory, http")
	flag.Parse()
	if *addr == "" {
		log.Fatal("compare: -redis is required; benchmarks/run starts a server and gives its address")
	}
	if *only != "" {
		*docs = "" // half a page must not replace a whole one
	} else {
		*only = ".*"
	}
	chosen, err := regexp.Compile("^(" + *only + ")$")
	if err != nil {
		log.Fatalf("compare: -only: %v", err)
	}
	s := &suite{server: redisinfo.Connect(*addr), rounds: *rounds, round: *round}
	if err := s.run(context.Background(), chosen); err != nil {
		log.Fatalf("compare: %v", err)
	}
	if err := s.write(*docs); err != nil {
		log.Fatalf("compare: %v", err)
	}
}

func (s *suite) run(ctx context.Context, chosen *regexp.Regexp) error {
	for _, c := range cases {
		if !chosen.MatchString(c.name) {
			continue
		}
		began := time.Now()
		if err := c.run(s, ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		log.Printf("%-12s %s", c.name, time.Since(began).Round(time.Second))
	}
	return nil
}

// section adds to the page.
func (s *suite) section(title, text string, rows [][]string) {
	fmt.Fprintf(&s.sections, "### %s\n\n%s\n\n%s\n", title, text, report.Table(rows))
}

// target adds to the table of targets.
func (s *suite) target(t report.Target) { s.targets = append(s.targets, t) }

// write writes the page, or prints it.
func (s *suite) write(docs string) error {
	version, err := s.server.Version(context.Background())
	if err != nil {
		return err
	}
	picture := ""
	if s.plot != nil {
		picture = "![" + s.plot.Title + "](benchmarks.svg)\n\n"
	}
	page := "## Targets\n\n" + report.Targets(s.targets) +
		"\n## Machine\n\n" + report.Machine(version) +
		"\n## Method\n\n" + s.method() +
		"\n## Results\n\n" + picture + s.sections.String()
	if docs == "" {
		fmt.Println(page)
		return nil
	}
	if s.plot != nil {
		if err := os.WriteFile(filepath.Join(docs, "benchmarks.svg"), []byte(s.plot.SVG()), 0o644); err != nil {
			return err
		}
	}
	return report.WriteMeasured(filepath.Join(docs, "benchmarks.md"), page)
}
