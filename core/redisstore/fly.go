package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
)

// fly sends one batch, if the breaker admits it, by a client that returns in time. Without one, nil, the flight is guarded
// and may be given up; fly returns false then.
func (n *node) fly(next departure, report func(error), client redis.UniversalClient) (landed bool) {
	calls := next.batch
	if report == nil && client == nil {
		calls = n.nodes.sort(n, calls)
	}
	calls = claim(calls, sent)
	if len(calls) == 0 { // all have left
		if report != nil {
			report(breaker.CallerLeft{Cause: context.Canceled}) // the breaker must hear of a trial, whatever became of it
		}
		return true
	}
	if report == nil {
		var err error
		if report, err = n.breaker.Enter(); err != nil {
			finish(calls, nil, err)
			return true
		}
	}
	// Only the time from now on is Redis'. What the callers waited in the queue is not.
	now := time.Now()
	if client == nil {
		return n.flyGuarded(calls, next, now, report)
	}
	outcomes, err := n.exchange(n.server.within(false, now), client, calls)
	if err != nil && time.Since(now) >= n.timeout { // in the words of go-redis it is one of several errors
		err = fmt.Errorf("%w: %w", timeoutError(n.timeout), err)
	}
	n.heard(now, next.load, err, report)
	n.answer(calls, outcomes, err)
	return true
}

// exchange sends calls by client, and keeps the deny cache true to what they do.
func (n *node) exchange(ctx context.Context, client redis.UniversalClient, calls []*call) ([]outcome, error) {
	n.traffic.count(len(calls))
	n.denials.depart(calls)
	outcomes, err := n.server.send(ctx, client, calls, n == n.nodes.stray)
	n.denials.arrive(calls, outcomes, err)
	return outcomes, err
}

// heard takes in what became of a flight that began at began.
func (n *node) heard(began time.Time, load int, err error, report func(error)) {
	n.queue.note(time.Since(began), load, err)
	if n.nodes.clientOf != nil && ofSlot(err) {
		err = nil // the server is well
	}
	report(err)
}

// answer answers calls that the node has heard of.
func (n *node) answer(calls []*call, outcomes []outcome, err error) {
	if n.nodes.clientOf != nil {
		calls, outcomes = n.stray(calls, outcomes, err)
	}
	answered, refused := 0, 0
	last := err
	for i := range calls {
		switch o := outcomeOf(i, outcomes, err); {
		case o.err == nil || errors.As(o.err, new(*core.StateError)):
			answered++
		default:
			refused, last = refused+1, o.err
		}
	}
	n.breaker.Decided(answered, breaker.Answered, nil)
	if refused > 0 {
		fate := breaker.Refused
		if lost(last) {
			fate = breaker.Unanswered
		}
		n.breaker.Decided(refused, fate, last)
	}
	finish(calls, outcomes, err)
}

// stray takes in which slots the node refused, and which the stray node has found. Calls that were refused beside others
// are queued again, by themselves; stray returns the rest. A call alone was sent again already.
func (n *node) stray(calls []*call, outcomes []outcome, err error) ([]*call, []outcome) {
	stray := n.nodes.stray
	kept := 0
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		switch {
		case n == stray && o.err == nil:
			n.nodes.strays.remove(c.key)
		case n != stray && o.err != nil && ofSlot(o.err):
			n.nodes.strays.add(c.key)
			if len(outcomes) > 1 && time.Now().Before(c.deadline(n.timeout)) {
				c.landed = false
				c.state.Store(waiting)
				stray.enqueue(c)
				continue
			}
		}
		if kept < i {
			calls[kept], outcomes[kept] = c, outcomes[i]
		}
		kept++
	}
	if outcomes == nil {
		return calls, nil
	}
	return calls[:kept], outcomes[:kept]
}

// flyGuarded sends calls and answers each of them, at the latest when its caller has waited for the store's timeout. If
// the flight itself takes that long it is given up, so that those who wait for the next are not late too.
func (n *node) flyGuarded(calls []*call, flight departure, began time.Time, report func(error)) (landed bool) {
	w := &watched{calls: calls, end: began.Add(n.timeout)}
	w.mu.Lock() // until the timer is set, which its function resets
	w.timer = time.AfterFunc(time.Until(calls[0].deadline(n.timeout)), func() {
		keepUp(longest * n.timeout)
		late, givenUp := w.overdue(n.timeout)
		err := timeoutError(n.timeout)
		if givenUp {
			n.heard(began, flight.load, err, report)
		}
		n.fail(late, breaker.Unanswered, err)
		if givenUp {
			n.depart(n.queue.landed(flight), nil)
		}
	})
	w.mu.Unlock()
	// Longer than the timeout: an answer that has come in time may be read late. See keepUp.
	outcomes, err := n.exchange(n.server.within(true, began), n.server.client, calls)
	rest, givenUp := w.land()
	if !givenUp {
		n.heard(began, flight.load, err, report)
	}
	if outcomes != nil {
		outcomes = outcomes[len(calls)-len(rest):]
	}
	for _, c := range rest {
		c.landed = true
	}
	n.answer(rest, outcomes, err)
	return !givenUp
}
