package redisstore

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
)

// reason is why calls were queued for too long.
type reason int

const (
	unanswered   reason = iota // batches are in flight, but the server does not answer
	noConnection               // no batch is in flight, because there is no connection
	queueTimeout               // the server answers other batches, too slowly for so many calls
)

// overdue removes the calls that were queued for longer than waitLimit, and returns them with the reason.
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
	if len(q.calls) > 0 { // look again after the timeout at the latest: the server may be silent by then
		q.setTimer(min(q.timeout, limit-now.Sub(q.calls[0].since)))
	}
	return late, why
}

// hasLate reports whether overdue will return calls after scheduler.KeepUp, which takes FastTurn at least.
func (q *queue) hasLate() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, _ := q.waitLimit()
	return len(q.calls) > 0 && time.Since(q.calls[0].since) >= limit-scheduler.FastTurn
}

// waitLimit returns how long a call may be queued, and the reason for failing it then. q.mu is held.
func (q *queue) waitLimit() (time.Duration, reason) {
	switch {
	case q.inFlight == 0:
		return q.timeout, noConnection
	case q.silent:
		return q.timeout, unanswered
	}
	return q.longestWait, queueTimeout
}
