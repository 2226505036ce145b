package main

import (
	"math"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// replies are those of requests to one bucket. What a bucket should have admitted follows from the instants at which
// they were sent and answered, so that it holds on a machine that stands still now and then.
type replies []reply

func (l replies) passed() (n int) {
	for _, r := range l {
		if r.passed() {
			n++
		}
	}
	return n
}

// took is the time in which all were decided.
func (l replies) took() time.Duration {
	if len(l) == 0 {
		return 0
	}
	last := slices.MaxFunc(l, func(a, b reply) int { return a.answered.Compare(b.answered) })
	return last.answered.Sub(l.began())
}

// began is when the first was sent.
func (l replies) began() time.Time {
	return slices.MinFunc(l, func(a, b reply) int { return a.sent.Compare(b.sent) }).sent
}

// drift is how much Redis' clock and this process's may differ in what they make of a scenario's length.
const drift = 2 * time.Millisecond

// most is how many a full bucket can have admitted of them.
func (l replies) most(limit core.Limit) int64 { return limit.MaxIn(l.took() + drift) }

// least is how many a full bucket of the mode Continuous must have admitted, each for a token. It is 0 if none was
// denied: then the bucket was never seen empty.
//
// A denial tells that less than a token was there. All that refilled between two denials was therefore admitted between
// them, but for what a bucket that is full can't hold.
func (l replies) least(limit core.Limit) int64 {
	var denied replies
	for _, r := range l {
		if r.denied() {
			denied = append(denied, r)
		}
	}
	if len(denied) == 0 {
		return 0
	}
	slices.SortFunc(denied, func(a, b reply) int { return a.answered.Compare(b.answered) })
	perSecond := limit.RefillRate / limit.RefillInterval.Seconds()
	room, sure := float64(limit.Capacity), float64(limit.Capacity)
	first, last := denied[0], denied[0]
	for _, next := range denied[1:] {
		if !next.sent.After(last.answered) {
			continue // which of the two came first is not known
		}
		most := perSecond * next.answered.Sub(last.sent).Seconds()
		sure -= max(0, most-(room-1)) // refilled at most, and found no room
		last = next
	}
	if last.sent.After(first.answered) {
		sure += perSecond*(last.sent.Sub(first.answered)-drift).Seconds() - 1
	}
	return max(limit.Capacity, int64(math.Ceil(sure)))
}
