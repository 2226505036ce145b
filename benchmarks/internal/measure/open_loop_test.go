package measure

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestPercentilesAreOfTheNearestRank(t *testing.T) {
	values := make([]float64, 1000)
	for i := range values {
		values[i] = float64(1000 - i)
	}
	if got, want := Percentiles(values, 0, 50, 99, 99.9, 100), []float64{1, 500, 990, 999, 1000}; !slices.Equal(got, want) {
		t.Errorf("percentiles %v, must be %v", got, want)
	}
	if got, want := Percentiles([]float64{7}, 50, 99.9), []float64{7, 7}; !slices.Equal(got, want) {
		t.Errorf("percentiles of one value %v, must be %v", got, want)
	}
	if got := Percentiles(nil, 50); got[0] != 0 {
		t.Errorf("percentile of nothing %v, must be 0", got)
	}
}

func TestPoissonKeepsTheRateAndRepeats(t *testing.T) {
	arrivals := Poisson(10_000, 10*time.Second, 1)
	if n := float64(len(arrivals)); math.Abs(n-100_000) > 2000 { // six standard deviations
		t.Errorf("%v arrivals in 10 s, must be about 100,000", n)
	}
	if !slices.IsSorted(arrivals) || arrivals[len(arrivals)-1] >= 10*time.Second {
		t.Error("arrivals must ascend and lie within the round")
	}
	short := 0 // gaps below the mean: 1 - 1/e of those of a Poisson process, half of a jittered clock's
	for i := 1; i < len(arrivals); i++ {
		if arrivals[i]-arrivals[i-1] < 100*time.Microsecond {
			short++
		}
	}
	if share := float64(short) / float64(len(arrivals)-1); math.Abs(share-(1-1/math.E)) > 0.02 {
		t.Errorf("%.2f of gaps are below the mean, must be 0.63", share)
	}
	if !slices.Equal(arrivals, Poisson(10_000, 10*time.Second, 1)) {
		t.Error("the same seed must give the same arrivals to every contender")
	}
	if slices.Equal(arrivals, Poisson(10_000, 10*time.Second, 2)) {
		t.Error("another seed must give other arrivals")
	}
}

// A stall of 50 ms counts for each request that comes while it lasts, although only one caused it.
func TestAnOpenLoopOmitsNoWaiting(t *testing.T) {
	const stall = 50 * time.Millisecond
	arrivals := make([]time.Duration, 20)
	for i := range arrivals {
		arrivals[i] = time.Duration(i) * time.Millisecond
	}
	stalled := make(chan struct{})
	var begin sync.Once // by the first request: whatever the machine does before it is no stall
	latencies, err := OpenLoop(func(int) error {
		begin.Do(func() { time.AfterFunc(stall, func() { close(stalled) }) })
		<-stalled
		return nil
	}, arrivals, len(arrivals))
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range latencies {
		if least := float64(stall - arrivals[i]); got < least {
			t.Errorf("request %d took %v ns from its arrival, must be %v or more: its wait counts from then on", i, got, least)
		}
	}
}

func TestAnOpenLoopEndsWhenTooManyWait(t *testing.T) {
	release := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	var started atomic.Int64
	_, err := OpenLoop(func(int) error { started.Add(1); <-release; return nil }, make([]time.Duration, 10), 4)
	if !errors.Is(err, ErrOverrun) || started.Load() != 4 {
		t.Errorf("error %v after %d requests, must be ErrOverrun after 4", err, started.Load())
	}
}

func TestAnOpenLoopReportsABrokenPremise(t *testing.T) {
	broken := errors.New("denied")
	if _, err := OpenLoop(func(int) error { return broken }, make([]time.Duration, 3), 3); !errors.Is(err, broken) {
		t.Errorf("error %v, must be that of the operation", err)
	}
}
