package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results are what the benchmarks printed.
type results struct {
	cpu    string
	values map[series][]float64 // one of each round
	peers  map[string][]string  // of a benchmark, in the order in which they ran
}

// A series is the values of one peer in the unit of a column.
type series struct{ bench, peer, unit string }

func newResults() *results {
	return &results{values: map[series][]float64{}, peers: map[string][]string{}}
}

// line is a result, such as "BenchmarkRedis/goroutines=1/peer=ratelimit-2  2067
// 25587 ns/op  12835 server-ns/op".
var line = regexp.MustCompile(`^Benchmark(\S+?)/peer=(\S+?)(?:-\d+)?\s+\d+\s+(.+)$`)

// add reads the output of one round.
func (r *results) add(output string) error {
	for text := range strings.Lines(output) {
		text = strings.TrimSpace(text)
		if name, ok := strings.CutPrefix(text, "cpu: "); ok {
			r.cpu = name
		}
		found := line.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		bench, peer, fields := found[1], found[2], strings.Fields(found[3])
		if !slices.Contains(r.peers[bench], peer) {
			r.peers[bench] = append(r.peers[bench], peer)
		}
		for pair := range slices.Chunk(fields, 2) {
			value, err := strconv.ParseFloat(pair[0], 64)
			if err != nil || len(pair) < 2 {
				return fmt.Errorf("not a result of go test: %q", text)
			}
			s := series{bench, peer, pair[1]}
			r.values[s] = append(r.values[s], value)
		}
	}
	return nil
}

// A column shows one unit of a benchmark.
type column struct {
	head, bench, unit string
	show              func(float64) float64
	ratio             bool // with the ratio to the base, in brackets
}

func perSecond(ns float64) float64 { return 1e9 / ns }
func micros(ns float64) float64    { return ns / 1e3 }
func millis(ns float64) float64    { return ns / 1e6 }
func same(v float64) float64       { return v }

// cell is the median of a peer's rounds, and that of the ratios within each
// round.
func (r *results) cell(c column, peer, base string) string {
	values := r.shown(c, peer)
	if len(values) == 0 {
		return "–"
	}
	text := number(median(values))
	bases := r.shown(c, base)
	if !c.ratio || peer == base || len(bases) != len(values) {
		return text
	}
	for i := range values {
		values[i] /= bases[i]
	}
	return text + " (×" + number(median(values)) + ")"
}

func (r *results) shown(c column, peer string) (values []float64) {
	for _, v := range r.values[series{c.bench, peer, c.unit}] {
		values = append(values, c.show(v))
	}
	return values
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// number writes v with three significant digits, thousands as k and millions as
// M.
func number(v float64) string {
	switch {
	case v >= 999_500:
		return three(v/1e6) + "M"
	case v >= 9_995:
		return three(v/1e3) + "k"
	}
	return three(v)
}

func three(v float64) string {
	switch {
	case v >= 99.95 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.0995:
		return fmt.Sprintf("%.2f", v)
	case v >= 0.0005:
		return fmt.Sprintf("%.1g", v)
	}
	return "0" // give or take what runs in the background
}
