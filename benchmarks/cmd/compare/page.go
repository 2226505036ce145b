package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/report"
)

// section adds to the page. A section without rows has no table.
func (s *suite) section(title, text string, rows [][]string) {
	fmt.Fprintf(&s.sections, "### %s\n\n%s\n\n", title, text)
	if rows != nil {
		s.sections.WriteString(report.Table(rows) + "\n")
	}
}

// withRatio is the median of a metric and, in brackets, its ratio to base's. Base itself has none.
func withRatio(v, base measure.Series, m measure.Metric) string { return withRatioOf(v, base, m, 1) }

// withRatioOf is withRatio of so many times the values.
func withRatioOf(v, base measure.Series, m measure.Metric, times float64) string {
	text := report.Number(v.Median(m) * times)
	if v.Name == base.Name {
		return text
	}
	return text + " (" + report.Times(v.Ratio(base, m)) + ")"
}

// target adds to the list of targets.
func (s *suite) target(t report.Target) { s.targets = append(s.targets, t) }

// write stores the run and writes the page into docs, or prints the page of this run alone.
func (s *suite) write(docs string) error {
	run := report.Run{
		Machine: s.machine, Date: time.Now().UTC().Format(time.DateOnly), Commit: s.commit,
		Rounds: fmt.Sprintf("%d rounds of %v", s.rounds, s.round), Targets: s.targets,
	}
	if docs == "" {
		fmt.Println(s.page([]report.Run{run}))
		return nil
	}
	stored := filepath.Join(docs, "benchmarks")
	if err := run.Save(stored); err != nil {
		return err
	}
	runs, err := report.Stored(stored, s.machine)
	if err != nil {
		return err
	}
	if s.plot != nil {
		if err := os.WriteFile(filepath.Join(docs, "benchmarks.svg"), []byte(s.plot.SVG()), 0o644); err != nil {
			return err
		}
	}
	return report.WriteMeasured(filepath.Join(docs, "benchmarks.md"), s.page(runs))
}

// page is the measured part of the page, of this run and those stored from other machines.
func (s *suite) page(runs []report.Run) string {
	picture := ""
	if s.plot != nil {
		picture = "![" + s.plot.Title + "; bars are quartiles of the rounds](benchmarks.svg)\n\n"
	}
	return "## Machines\n\nClients and Redis share a machine. `benchmarks/run` on another machine adds its line. Targets are what this library\nis to reach.\n\n" + report.Machines(runs) +
		"\n## Method\n\n" + s.method() +
		"\n## Results\n\nMeasured on " + s.machine.Name() + ".\n\n" + picture + s.sections.String()
}
