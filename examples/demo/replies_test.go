package main

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// simulated is what an exact bucket answers to requests at instants, each heard of only late after it was decided.
func simulated(limit core.Limit, at []time.Duration, late time.Duration) (l replies) {
	start := time.Now()
	level, last := float64(limit.Capacity), time.Duration(0)
	perSecond := limit.RefillRate / limit.RefillInterval.Seconds()
	for _, t := range at {
		level = math.Min(float64(limit.Capacity), level+perSecond*(t-last).Seconds())
		last = t
		status := http.StatusTooManyRequests
		if level >= 1 {
			level--
			status = http.StatusOK
		}
		l = append(l, reply{status: status, sent: start.Add(t - late/2), answered: start.Add(t + late)})
	}
	return l
}

// every lists instants d apart, but for pauses in which the machine stands still.
func every(d, length time.Duration, pauses map[time.Duration]time.Duration) (at []time.Duration) {
	for t := time.Duration(0); t < length; t += d {
		for began, long := range pauses {
			if t > began && t < began+long {
				t = began + long
			}
		}
		at = append(at, t)
	}
	return at
}

func TestBoundsHoldOnMachinesThatPause(t *testing.T) {
	limit := core.PerSecond(50).WithBurst(20)
	type pauses = map[time.Duration]time.Duration
	for name, c := range map[string]struct {
		at    []time.Duration
		late  time.Duration
		tight int64 // how far the bounds may be apart
	}{
		"steady":             {every(time.Millisecond, 3*time.Second, nil), time.Millisecond, 3},
		"one pause":          {every(time.Millisecond, 3*time.Second, pauses{time.Second: 750 * time.Millisecond}), time.Millisecond, 24},
		"pause at the start": {every(time.Millisecond, 3*time.Second, pauses{0: 900 * time.Millisecond}), time.Millisecond, 60},
		"many pauses":        {every(time.Millisecond, 3*time.Second, pauses{500 * time.Millisecond: 600 * time.Millisecond, 2 * time.Second: 800 * time.Millisecond}), time.Millisecond, 50},
		"slow answers":       {every(5*time.Millisecond, 3*time.Second, nil), 300 * time.Millisecond, 180},
		"few requests":       {every(15*time.Millisecond, 3*time.Second, nil), 20 * time.Millisecond, 70},
	} {
		t.Run(name, func(t *testing.T) {
			l := simulated(limit, c.at, c.late)
			passed, least, most := int64(l.passed()), l.least(limit), l.most(limit)
			require.LessOrEqual(t, least, passed, "what must have passed")
			require.GreaterOrEqual(t, most, passed, "what can have passed")
			require.LessOrEqual(t, most-least, c.tight, "between %d and %d", least, most)
		})
	}
}

func TestBoundsNoticeWhatIsWrong(t *testing.T) {
	limit := core.PerSecond(50).WithBurst(20)
	at := every(time.Millisecond, 3*time.Second, nil)
	stingy := simulated(core.PerSecond(45).WithBurst(20), at, time.Millisecond)
	require.Less(t, int64(stingy.passed()), stingy.least(limit), "a bucket that refills too slowly")
	generous := simulated(core.PerSecond(55).WithBurst(20), at, time.Millisecond)
	require.Greater(t, int64(generous.passed()), generous.most(limit), "a bucket that refills too fast")
}

func TestNothingIsSureOfABucketThatWasNeverEmpty(t *testing.T) {
	limit := core.PerSecond(50).WithBurst(20)
	l := simulated(limit, every(100*time.Millisecond, time.Second, nil), time.Millisecond)
	require.Zero(t, l.least(limit))
}
