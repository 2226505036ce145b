// Package measure runs contenders by turns on one machine and compares them. The machine may be
// noisy, so that only what was measured side by side is compared: contenders take turns in short
// rounds (A, B, C, B, C, A, …), and a ratio is taken within each round.
package measure

import (
	"runtime"
	"time"
)

// A Contender does one kind of work in its own way.
type Contender struct {
	Name string

	// Worker returns the work of one goroutine, with state of its own: op is called with 0, 1, 2…
	// An error is a broken premise (a request that was not decided as the case says) and ends the
	// whole run.
	Worker func() (op func(i int) error)
}

// A Metric is something measured in each round; of all but PerSecond and Operations, less is better.
type Metric string

// What every case measures; a Probe may add more.
const (
	PerSecond  Metric = "per second"  // operations, of all goroutines together
	Operations Metric = "operations"  // how many
	Nanos      Metric = "ns"          // time for one operation: wall clock, so less with more goroutines
	Allocs     Metric = "allocations" // for one operation
	Bytes      Metric = "bytes"       // allocated, for one operation
)

// Times of calls. Interleave measures P50 alone, of one goroutine or where Options.Timed says so.
const (
	P50 Metric = "p50 µs"
	P99 Metric = "p99 µs"
)

// Options are how a case is measured.
type Options struct {
	Goroutines int
	Rounds     int           // at least 5 in a run that counts
	Round      time.Duration // of one contender
	Timed      bool          // calls are timed even if several goroutines make them
	Probe      Probe         // may be nil
}

// A Probe measures what the process itself does not see, such as the work of a server.
type Probe interface {
	Before(contender int) error
	After(contender int, ops int64, into map[Metric]float64) error
}

// Series is what the rounds of one contender gave.
type Series struct {
	Name   string
	rounds []map[Metric]float64
}

// Interleave runs each contender once in every round.
func Interleave(contenders []Contender, o Options) ([]Series, error) {
	names := make([]string, len(contenders))
	for i, c := range contenders {
		names[i] = c.Name
	}
	start := make([]int, len(contenders)) // where its goroutines go on in the next round
	return TakeTurns(names, o.Rounds, func(i int) (map[Metric]float64, error) {
		runtime.GC() // nobody pays for another's garbage
		m, n, err := one(contenders[i], o, i, start[i])
		start[i] += n
		return m, err
	})
}

// one measures one round of a contender and returns how far each goroutine got.
func one(c Contender, o Options, i, start int) (map[Metric]float64, int, error) {
	if o.Probe != nil {
		if err := o.Probe.Before(i); err != nil {
			return nil, 0, err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := run(c.Worker, o.Goroutines, o.Timed || o.Goroutines == 1, o.Round, start)
	runtime.ReadMemStats(&after)
	if l.err != nil {
		return nil, 0, l.err
	}
	ops := float64(l.ops)
	m := map[Metric]float64{
		PerSecond:  ops / l.elapsed.Seconds(),
		Operations: ops,
		Nanos:      float64(l.elapsed.Nanoseconds()) / ops,
		Allocs:     float64(after.Mallocs-before.Mallocs) / ops,
		Bytes:      float64(after.TotalAlloc-before.TotalAlloc) / ops,
	}
	if len(l.calls) > 0 {
		m[P50] = median(l.calls) / 1e3
	}
	if o.Probe != nil {
		if err := o.Probe.After(i, l.ops, m); err != nil {
			return nil, 0, err
		}
	}
	return m, int(l.ops) / o.Goroutines, nil
}
