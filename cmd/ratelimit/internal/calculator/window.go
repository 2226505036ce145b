package calculator

import (
	"fmt"
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Window is the most that the limits admit in any window of a length.
type Window struct {
	Length  string  `json:"length"`
	Seconds float64 `json:"seconds"` // the length
	Bounded bool    `json:"bounded"` // by one of the limits
	Most    int64   `json:"most"`    // requests, if they are bounded
	Limits  []Bound `json:"limits"`
	Seen    int64   `json:"seen"`  // the most that were allowed in such a window of the traffic
	At      string  `json:"at"`    // when that window begins
	Begin   float64 `json:"begin"` // the same, in seconds since the picture begins
	Says    string  `json:"says"`
}

// Bound is what one limit admits.
type Bound struct {
	Limit string `json:"limit"`
	Most  string `json:"most"`
}

// worst computes the bounds by Limit.MaxIn, and the busiest window of the
// traffic.
func (a *asked) worst(r *run) *Window {
	w := &Window{Length: length(a.window), Seconds: a.window.Seconds()}
	least, countable, slots := int64(math.MaxInt64), math.MaxInt64/a.cost, 0
	for _, l := range a.limits {
		most, says := l.MaxIn(a.window), ""
		switch {
		case a.cost > l.Capacity:
			most, says = 0, "0"
		case l.Mode == core.Concurrent:
			slots++
			says = "no bound"
		case most == math.MaxInt64:
			says = "more than " + show.Count(countable)
		default:
			most /= a.cost
			says = show.Count(most)
		}
		w.Limits, least = append(w.Limits, Bound{l.String(), says}), min(least, most)
	}
	if least < math.MaxInt64 {
		w.Most, w.Bounded = least, true
	}
	var at time.Time
	w.Seen, at = r.busiest(a.window)
	if w.Seen > 0 {
		w.At, w.Begin = r.clock(at.Sub(r.from).Truncate(time.Millisecond)), at.Sub(r.from).Seconds()
	}
	switch {
	case w.Bounded:
		w.Says = fmt.Sprintf("At most %s in any %s.", show.Some(w.Most, "request"), w.Length)
	case slots == len(a.limits):
		w.Says = "Slots bound how many requests are at work at once, and not how many there are in " + w.Length + "."
	default:
		w.Says = fmt.Sprintf("More than %s in any %s.", show.Some(countable, "request"), w.Length)
	}
	return w
}

// busiest returns the most requests that were allowed in a window of a length,
// and when the first such window begins. Both ends belong to the window.
func (r *run) busiest(window time.Duration) (most int64, at time.Time) {
	first := 0
	for last := range r.allowed {
		for r.allowed[last].Sub(r.allowed[first]) > window {
			first++
		}
		if n := int64(last - first + 1); n > most {
			most, at = n, r.allowed[first]
		}
	}
	return most, at
}
