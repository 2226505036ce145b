package redisstore

import (
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
)

// watchdog bounds how long callers wait for a batch in flight: see
// node.sendWithWatchdog. A context alone does not, because go-redis does not
// always stop reading when it ends.
type watchdog struct {
	mu    sync.Mutex // guards all below
	timer *time.Timer
	calls []*call   // those without an answer, in the order of their timeouts
	end   time.Time // when the batch is given up
	over  bool      // the batch is complete or given up: nothing is left to do
}

// giveUpEarly is how much before its end a batch may be given up, with its first
// call, which times out at about the same instant.
const giveUpEarly = time.Millisecond

// overdue removes and returns the calls whose timeout has passed; all, if it
// gives up the batch. Otherwise it sets the timer for the next call. If the
// batch is complete it does nothing.
//
// turn is from when on the server works on this batch; no timeout begins
// earlier. Example with a timeout of 100 ms: a batch is sent at 0 ms, and the
// server answers the one before at 60 ms. Its calls are overdue at 160 ms, not
// at 100.
func (w *watchdog) overdue(timeout time.Duration, turn time.Time) (late []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, false
	}
	if end := turn.Add(timeout); end.After(w.end) {
		w.end = end
	}
	n, now := 0, time.Now()
	w.over = !now.Before(w.end.Add(-giveUpEarly))
	due := func(c *call) time.Time {
		if c.since.Before(turn) {
			return turn.Add(timeout)
		}
		return c.deadline(timeout)
	}
	for n < len(w.calls) && (w.over || !now.Before(due(w.calls[n]))) {
		n++
	}
	late, w.calls = w.calls[:n], w.calls[n:]
	if !w.over {
		next := w.end
		if len(w.calls) > 0 {
			next = due(w.calls[0])
		}
		w.timer.Reset(next.Sub(now) - scheduler.FastTurn)
	}
	return late, w.over
}

// complete stops the watchdog. It returns the calls that overdue has not
// returned, and whether the batch was given up before.
func (w *watchdog) complete() (rest []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	rest, w.calls = w.calls, nil
	givenUp, w.over = w.over, true
	return rest, givenUp
}
