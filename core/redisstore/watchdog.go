package redisstore

import (
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
)

// watchdog bounds how long callers wait for a batch in flight. It is needed because go-redis does not always stop reading when
// a context ends.
type watchdog struct {
	mu    sync.Mutex // guards all below
	timer *time.Timer
	calls []*call   // the calls without an answer, in the order in which they were enqueued
	end   time.Time // when the batch is given up
	over  bool      // the batch is complete or given up
}

// giveUpEarly is how much before its end a batch may be given up. The call that began it is due at about the same instant, and
// one run of the timer then handles both.
const giveUpEarly = time.Millisecond

// overdue removes and returns the calls whose timeout has passed. It then sets the timer for the next call, or gives the batch
// up. If the batch is complete it does nothing.
//
// turn is when the server answered the batch before this one; the timeout begins no earlier. Example with a timeout of 100 ms:
// a batch is sent at 0 ms and the server answers the one before at 60 ms. Its calls are overdue at 160 ms, not at 100.
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
	due := func(c *call) time.Time { // when c's timeout ends
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

// complete ends the watch and returns the calls that it has not failed. givenUp reports whether it gave the batch up before.
func (w *watchdog) complete() (rest []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	rest, w.calls = w.calls, nil
	givenUp, w.over = w.over, true
	return rest, givenUp
}
