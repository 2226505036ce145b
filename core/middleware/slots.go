package middleware

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// slots are those that a request holds until its response is over.
type slots struct {
	results []core.Result
	over    atomic.Bool
	timer   *time.Timer
}

// holdsWithin is how many Holds there are in a MaxHold, as one may fail.
const holdsWithin = 3

// prolongSlots has a timer prolong the slots of decisions until release. It
// returns nil if they have none.
func prolongSlots(decisions []core.Result) *slots {
	var results []core.Result
	var shortest time.Duration
	for _, r := range decisions {
		if hold := maxHold(r); hold > 0 {
			if results = append(results, r); shortest == 0 || hold < shortest {
				shortest = hold
			}
		}
	}
	if results == nil {
		return nil
	}
	s := &slots{results: results}
	every := shortest / holdsWithin
	s.timer = time.AfterFunc(time.Hour, func() {
		if s.extend() {
			s.timer.Reset(every)
		}
	})
	s.timer.Reset(every) // only now, because the function reads s.timer
	return s
}

// extend holds the slots for longer. It reports whether to do so again.
func (s *slots) extend() (again bool) {
	for i := range s.results {
		if s.over.Load() {
			return false
		}
		err := extend(s.results[i])
		again = again || !errors.Is(err, core.ErrSettled)
	}
	return again && !s.over.Load()
}

// release gives back, once, the slots that the app does not hold.
func (s *slots) release() {
	s.over.Store(true)
	s.timer.Stop()
	for _, r := range s.results {
		releaseSoon(r)
	}
}
