package measure

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestARatioIsTakenWithinRounds(t *testing.T) {
	// The machine was half as fast in the second round, for both.
	a := Series{"a", []map[Metric]float64{{PerSecond: 300}, {PerSecond: 150}, {PerSecond: 330}}}
	b := Series{"b", []map[Metric]float64{{PerSecond: 100}, {PerSecond: 50}, {PerSecond: 100}}}
	if got := a.Ratio(b, PerSecond); got != 3 {
		t.Errorf("ratio %v, must be 3", got)
	}
	if got := a.Median(PerSecond); got != 300 {
		t.Errorf("median %v, must be 300", got)
	}
}

func TestABrokenPremiseEndsTheRun(t *testing.T) {
	broken := errors.New("denied")
	var calls atomic.Int64
	for _, goroutines := range []int{1, 8} {
		calls.Store(0)
		_, err := Interleave([]Contender{{"c", func() func(int) error {
			return func(int) error {
				if calls.Add(1) > 1000 {
					return broken
				}
				return nil
			}
		}}}, Options{Goroutines: goroutines, Rounds: 1, Round: time.Minute})
		if !errors.Is(err, broken) {
			t.Errorf("%d goroutines: error %v, must be that of the operation", goroutines, err)
		}
	}
}

func TestAllGoroutinesWork(t *testing.T) {
	var workers atomic.Int64
	series, err := Interleave([]Contender{{"c", func() func(int) error {
		workers.Add(1)
		return func(int) error { time.Sleep(time.Millisecond); return nil }
	}}}, Options{Goroutines: 4, Rounds: 3, Round: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if workers.Load() != 12 || series[0].Median(PerSecond) <= 0 {
		t.Errorf("%d workers in 3 rounds of 4, %v a second", workers.Load(), series[0].Median(PerSecond))
	}
}

func TestCallsOfManyGoroutinesAreTimed(t *testing.T) {
	slow := []Contender{{"c", func() func(int) error {
		return func(int) error { time.Sleep(2 * time.Millisecond); return nil }
	}}}
	series, err := Interleave(slow, Options{Goroutines: 4, Rounds: 1, Round: 20 * time.Millisecond, Timed: true})
	if err != nil {
		t.Fatal(err)
	}
	if p50 := series[0].Median(P50); p50 < 2000 {
		t.Errorf("the median call took %v µs, must be 2000 or more", p50)
	}
	series, err = Interleave(slow, Options{Goroutines: 4, Rounds: 1, Round: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if series[0].Has(P50) {
		t.Error("calls must not be timed unless asked for: the clock slows others down")
	}
}
