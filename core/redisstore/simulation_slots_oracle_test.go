package redisstore_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The oracle of simulations of slots: what callers hold and have used, of each
// limit. It shares no code with the library.
//
// A hold has two ends. It must last until MaxHold has passed in real time,
// whatever the clock showed. And it must be over when the clock shows its end.
// Without steps of the clock back these are one instant. So there are two
// counts: least is what must be out, and most is what may be.
//
// Example: 5 slots. least is 4 and most is 5, because the clock stepped back
// while one was out. A request for one may be allowed or denied. A request for
// two must be denied.

// slotOracle is what is out and what was used of one store, by the limits'
// names.
type slotOracle struct {
	clock *slotClock
	out   []*outSlot
	used  map[string]int64 // for good
}

// slotClock is real time and what the clock shows, in µs.
type slotClock struct{ real, wall int64 }

// outSlot is what one decision holds of one limit.
type outSlot struct {
	limit    string
	n        int64
	realEnd  int64
	wallEnd  int64
	released bool
}

// hold begins or lengthens what o holds.
func (c *slotClock) hold(o *outSlot, maxHold int64) {
	o.realEnd, o.wallEnd = c.real+maxHold, c.wall+maxHold
}

// must reports whether o is out for certain, and may whether it may be.
func (c *slotClock) must(o *outSlot) bool { return !o.released && c.real < o.realEnd }
func (c *slotClock) may(o *outSlot) bool  { return !o.released && c.wall < o.wallEnd }

// release ends what o holds. If that may be over already, a store may write
// nothing. Then a step of the clock back makes it last longer.
func (c *slotClock) release(o *outSlot) { o.released = o.released || c.must(o) }

// sum returns the least and the most that is out or used of a limit. Without is
// not counted.
func (s *slotOracle) sum(limit string, without *outSlot) (least, most int64) {
	least = s.used[limit]
	most = least
	for _, o := range s.out {
		if o.limit != limit || o == without {
			continue
		}
		if s.clock.must(o) {
			least += o.n
		}
		if s.clock.may(o) || s.clock.must(o) {
			most += o.n
		}
	}
	return least, most
}

// take records that a decision took n of a limit.
func (s *slotOracle) take(x core.Limit, n int64) *outSlot {
	if n == 0 {
		return nil
	}
	if x.MaxHold == 0 {
		s.used[x.Name] += n
		return nil
	}
	o := &outSlot{limit: x.Name, n: n}
	s.clock.hold(o, x.MaxHold.Microseconds())
	s.out = append(s.out, o)
	return o
}

// next returns what may be out, for a move of the clock to its end.
func (s *slotOracle) next() (list []*outSlot) {
	for _, o := range s.out {
		if s.clock.may(o) {
			list = append(list, o)
		}
	}
	return list
}

// admits reports whether limits may allow a decision that takes so many of
// each, and whether they must.
func (s *slotOracle) admits(limits []core.Limit, each []int64) (may, must bool) {
	may, must = true, true
	for i, x := range limits {
		least, most := s.sum(x.Name, nil)
		if x.Mode == core.Concurrent && each[i] == 0 {
			continue
		}
		may = may && least+each[i] <= x.Capacity
		must = must && most+each[i] <= x.Capacity
	}
	return may, must
}

// exact reports whether it is known for certain what is out.
func (s *slotOracle) exact() bool {
	return !slices.ContainsFunc(s.out, func(o *outSlot) bool {
		return !o.released && (s.clock.must(o) != s.clock.may(o) || s.clock.must(o) && o.realEnd-s.clock.real != o.wallEnd-s.clock.wall)
	})
}

// retryAfter returns how long it takes until limits have so many of each, by
// what is held alone; -1: that does not suffice.
func (s *slotOracle) retryAfter(limits []core.Limit, each []int64) (longest int64) {
	for i, x := range limits {
		if x.Mode == core.Concurrent && each[i] == 0 {
			continue
		}
		_, out := s.sum(x.Name, nil)
		if out+each[i] <= x.Capacity {
			continue
		}
		var ends []*outSlot
		for _, o := range s.out {
			if o.limit == x.Name && s.clock.may(o) {
				ends = append(ends, o)
			}
		}
		slices.SortFunc(ends, func(a, b *outSlot) int { return int(a.wallEnd - b.wallEnd) })
		for _, o := range ends {
			if out -= o.n; out+each[i] <= x.Capacity {
				longest = max(longest, o.wallEnd-s.clock.wall)
				break
			}
		}
		if out+each[i] > x.Capacity {
			return -1
		}
	}
	return longest
}

func (s *slotOracle) String() string {
	var b strings.Builder
	for _, o := range s.out {
		if s.clock.may(o) || s.clock.must(o) {
			fmt.Fprintf(&b, " %d %s until %d/%d", o.n, o.limit, o.realEnd-s.clock.real, o.wallEnd-s.clock.wall)
		}
	}
	return fmt.Sprintf("used %v, out%s", s.used, b.String())
}
