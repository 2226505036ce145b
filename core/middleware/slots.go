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

// holdsWithin is how many Holds there are in a MaxHold: if one fails, the next one is in time.
const holdsWithin = 3

// holdSlots holds the slots that decisions took, until release. It returns nil if they took none.
func holdSlots(decisions []core.Result) *slots {
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

// extend says that the request is still at work. It reports whether to do so again.
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

// release gives back the slots, except those that the app holds. Only the first call has an effect.
func (s *slots) release() {
	s.over.Store(true)
	s.timer.Stop()
	for _, r := range s.results {
		releaseSoon(r)
	}
}
