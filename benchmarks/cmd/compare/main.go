// Compare measures this library beside its peers and writes docs/benchmarks.md, its plot, and what other machines' pages
// need of it into docs/benchmarks/. benchmarks/run starts the Redis it needs, and builds the programs that it starts
// itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"regexp"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/redisinfo"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// A suite is one run: how to measure, and what came of it.
type suite struct {
	server  *redisinfo.Server
	machine report.Machine
	commit  string
	rounds  int
	round   time.Duration

	targets  []report.Target
	sections strings.Builder
	plot     *report.Plot
}

// A measurement is a part of the run that can be chosen by its name.
type measurement struct {
	name string
	run  func(*suite, context.Context) error
}

// cases are measured in this order, which is that of the targets.
var cases = []measurement{
	{"redis", (*suite).redis},
	{"servers", (*suite).servers},
	{"open loop", (*suite).openLoop},
	{"latency", (*suite).latency},
	{"redis memory", (*suite).redisMemory},
	{"denied", (*suite).denied},
	{"hot key", (*suite).hotKey},
	{"processes", (*suite).processes},
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
	only := flag.String("only", "", "regular expression of the cases to run, whose part of the page is printed, of: "+caseNames())
	commit := flag.String("commit", "unknown", "the commit of the measured tree")
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
	s := &suite{server: redisinfo.Connect(*addr), commit: *commit, rounds: *rounds, round: *round}
	version, err := s.server.Version(context.Background())
	if err != nil {
		log.Fatalf("compare: %v", err)
	}
	s.machine = report.ThisMachine(version)
	if err := s.run(context.Background(), chosen); err != nil {
		log.Fatalf("compare: %v", err)
	}
	if err := s.write(*docs); err != nil {
		log.Fatalf("compare: %v", err)
	}
}

func caseNames() string {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

func (s *suite) run(ctx context.Context, chosen *regexp.Regexp) error {
	all := time.Now()
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
	log.Printf("%-12s %s", "all", time.Since(all).Round(time.Second))
	return nil
}
