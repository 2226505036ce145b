package redisstore_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// What is drawn of limits: the lists of a simulation, which are the versions
// and tiers of one policy.

// limitDraw draws limits of a simulation.
type limitDraw struct {
	*rand.Rand
	leases, units, calendars bool // whether the simulation has these
}

func listText(list []core.Limit) string {
	var parts []string
	for _, l := range list {
		parts = append(parts, fmt.Sprintf("{%q capacity %d, %v %s every %v, %v", l.Name, l.Capacity, l.RefillRate, l.Unit, l.RefillInterval, l.Mode)+calendarText(l)+"}")
	}
	return strings.Join(parts, " ")
}

func calendarText(l core.Limit) string {
	if l.Location == nil {
		return ""
	}
	if l.Anchor.IsZero() {
		return " in " + l.Location.String()
	}
	return " in " + l.Location.String() + " from " + l.Anchor.In(l.Location).Format(time.DateTime)
}

// lists draws the versions and tiers of a policy. Most differ in one field
// only: lists with nothing in common affect each other less.
func (r limitDraw) lists() [][]core.Limit {
	first := []core.Limit{r.first()}
	for r.IntN(3) == 0 && len(first) < 4 {
		first = append(first, r.first())
	}
	if r.units && !r.leases {
		first = append(first, r.limit().WithUnit(tokens))
	}
	for i := range first {
		if r.IntN(2) == 0 {
			first[i].Name = string(rune('a' + i))
		}
	}
	lists := [][]core.Limit{first}
	for count := []int{1, 2, 2, 2, 3, 4}[r.IntN(6)]; len(lists) < count; {
		next := r.change(slices.Clone(lists[r.IntN(len(lists))]))
		if validList(next) {
			lists = append(lists, next)
		}
	}
	for r.leases && (r.units || r.calendars) { // a list that ends leases of the first
		next := r.limit().WithName("n")
		if r.units {
			next = next.WithUnit(tokens)
		}
		if r.calendars {
			next = drawCalendar(r.Rand, next)
		}
		if list := append(slices.Clone(first), next); validList(list) {
			return append(lists, list)
		}
	}
	return lists
}

// change changes one field, mostly, of one limit of a list.
func (r limitDraw) change(next []core.Limit) []core.Limit {
	i := r.IntN(len(next))
	switch other := r.limit(); r.IntN(11) {
	case 0:
		next[i].Capacity = other.Capacity
	case 1:
		next[i].RefillRate = other.RefillRate
	case 2:
		next[i].RefillInterval = other.RefillInterval
	case 3:
		next[i].Mode = core.Mode(r.IntN(3))
	case 4:
		other = other.WithName([]string{"", "n"}[r.IntN(2)])
		if r.units && r.IntN(2) == 0 {
			other = other.WithUnit(tokens)
		}
		next = append(next, other)
	case 5:
		next[i].Name = []string{"", "a", "b", "c", "api"}[r.IntN(5)]
	case 6:
		if len(next) > 1 {
			next = slices.Delete(next, i, i+1)
		}
	case 7:
		next[0], next[i] = next[i], next[0]
	case 8: // raised or lowered, as an exception is
		next[i].Capacity = max(1, int64(float64(next[i].Capacity)*[]float64{0.1, 0.5, 1.5, 2, 10}[r.IntN(5)]))
	case 9:
		if r.units {
			next[i].Unit = []string{"", tokens}[r.IntN(2)]
		}
	case 10:
		if r.calendars {
			next[i] = drawCalendar(r.Rand, next[i])
		}
	}
	return next
}

// first draws a limit of the first list. Limits on calendars or of other units
// are never on lease, so if there are leases other lists have these.
func (r limitDraw) first() core.Limit {
	r.calendars = r.calendars && !r.leases
	return r.limit()
}

// limit draws a limit that integers hold exactly, so that the oracle is exact
// to the token.
func (r limitDraw) limit() core.Limit {
	for {
		l := core.Limit{Mode: core.Mode([]int{0, 0, 1, 2}[r.IntN(4)])}
		l.Capacity = 1 + r.Int64N(int64(math.Pow10(1+r.IntN(3))))
		if r.leases {
			l.Capacity = 10 * (1 + r.Int64N(int64(math.Pow10(1+r.IntN(3)))))
		}
		l.RefillInterval = []time.Duration{
			100 * time.Millisecond, time.Second, time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour,
			333_333 * time.Microsecond, 7 * time.Second,
		}[r.IntN(9)]
		l.RefillRate = []float64{1, float64(1 + r.IntN(20)), float64(l.Capacity), float64(l.Capacity), 3 * float64(l.Capacity), 0.5, 2.5, 0.1}[r.IntN(8)]
		if r.calendars && r.IntN(2) == 0 {
			l = drawCalendar(r.Rand, l)
		}
		if validList([]core.Limit{l}) {
			return l
		}
	}
}

// validList reports whether a constructor accepts the list and integers hold
// its limits exactly.
func validList(list []core.Limit) bool {
	if (core.Policy{Name: simulatedPolicy, Limits: list}).Validate() != nil {
		return false
	}
	if !slices.ContainsFunc(list, func(l core.Limit) bool { return l.Unit == "" }) {
		return false // AllowN needs a limit that counts requests
	}
	for _, l := range list {
		if calendarOf(l) != nil {
			if float64(l.Capacity)/l.RefillRate > 12 {
				return false
			}
			continue
		}
		if _, den := fraction(l.RefillRate); float64(den)*float64(l.RefillInterval.Microseconds())*float64(l.Capacity) > 1<<49 {
			return false
		}
		if float64(l.Capacity)/l.RefillRate*l.RefillInterval.Hours() > 60*24 {
			return false // so that the bucket recovers within decades
		}
	}
	return true
}

// fraction returns a rate as a fraction: 1/10 for 0.1.
func fraction(rate float64) (num, den int64) {
	for den = 1; ; den++ {
		if num = int64(math.Round(rate * float64(den))); float64(num)/float64(den) == rate {
			return num, den
		}
	}
}
