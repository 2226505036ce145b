package outgoing

import (
	"math"
	"time"
)

// State is how one key is doing.
type State struct {
	Waiting      int       // requests that wait, without those of a batch
	WaitingBatch int       // requests of a batch that wait
	UnderWay     int       // requests that were sent and are not answered
	PausedUntil  time.Time // zero: there is no pause
	Rate         float64   // requests per second that the answers allow; 0: they say nothing
}

// State returns how a key is doing. It is the zero State if no request used the
// key lately.
func (g *Gate) State(key string) State {
	l := g.lanes.look(key)
	if l == nil {
		return State{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	s := State{Waiting: len(l.queue.waiting[Interactive]), WaitingBatch: len(l.queue.waiting[Batch]), UnderWay: l.underWay}
	if l.pause.until.After(now) {
		s.PausedUntil = l.pause.until
	}
	if rate := l.pace.rate(now); !math.IsInf(rate, 1) {
		s.Rate = rate
	}
	return s
}
