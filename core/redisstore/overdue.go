package redisstore

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
)

// reason says why calls were queued for too long.
type reason int

const (
	unanswered   reason = iota // the server does not answer the batches in flight
	noConnection               // no batch is in flight, because there is no connection
	queueTimeout               // the server answers batches, but too slowly for so many calls
)

// overdue removes and returns the calls that have been queued for waitLimit, with the reason. It sets the timer for the next call.
func (q *queue) overdue() (late []*call, why reason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timerSet = false
	limit, why := q.waitLimit()
	n, now := 0, time.Now()
	for n < len(q.calls) && now.Sub(q.calls[n].since) >= limit {
		n++
	}
	late, q.calls = q.calls[:n:n], q.calls[n:]
	if len(q.calls) > 0 { // after the timeout at the latest, because waitLimit is shorter once the server is silent
		q.setTimer(min(q.timeout, limit-now.Sub(q.calls[0].since)))
	}
	return late, why
}

// hasLate reports whether overdue will return calls, if the caller calls scheduler.KeepUp before it, which takes at least FastTurn.
func (q *queue) hasLate() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, _ := q.waitLimit()
	return len(q.calls) > 0 && time.Since(q.calls[0].since) >= limit-scheduler.FastTurn
}

// waitLimit returns how long a call may be queued, and the reason if it is queued for longer. With a timeout of 100 ms that is 1 s
// while the server answers, and otherwise 100 ms. q.mu is held.
func (q *queue) waitLimit() (time.Duration, reason) {
	switch {
	case q.inFlight == 0:
		return q.timeout, noConnection
	case q.silent:
		return q.timeout, unanswered
	}
	return q.longestWait, queueTimeout
}
