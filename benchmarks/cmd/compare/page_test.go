package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// measuredOn is a run of one target and one table.
func measuredOn(processor string, ratio float64) *suite {
	s := &suite{machine: report.Machine{Processor: processor, Cores: 2}, commit: "0123abcd", rounds: 7}
	s.target(report.AtLeast("decisions/s", "redis_rate", ratio, 2))
	s.section("Redis: decisions per second", "In brackets the ratio.", [][]string{{"goroutines", "64"}, {"ratelimit", processor + "'s"}})
	return s
}

func TestAnotherMachineAddsItsValues(t *testing.T) {
	docs := t.TempDir()
	for _, s := range []*suite{measuredOn("one 1", 2.5), measuredOn("two 2", 1.5), measuredOn("two 2", 1.75)} {
		if err := s.write(docs); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, line := range []string{
		"It meets 0 of 1 targets: [values, and versions of the contenders](benchmarks/two-2-2-cores.json).",
		"It meets 1 of 1 targets: [values, and versions of the contenders](benchmarks/one-1-2-cores.json).",
		"Measured on two 2, 2 cores.",
		"| ratelimit | two 2's |",
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("the page lacks the line %q:\n%s", line, page)
		}
	}
	last := -1
	for _, heading := range []string{"## Machines\n", "## Method\n", "## Results\n"} {
		at := strings.Index(page, heading)
		if at <= last {
			t.Errorf("%q must come after the headings before it", heading)
		}
		last = at
	}
}

func TestCasesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.name] {
			t.Errorf("two cases are named %q: -only can't choose one of them", c.name)
		}
		seen[c.name] = true
	}
}
