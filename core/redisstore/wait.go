package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucketname"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// board puts a call for r on the next flight, and waits for its outcome.
func (n *node) decide(ctx context.Context, key string, r store.Request, others []member) (outcome, error) {
	if n.breaker.Open() {
		n.queue.use()
		// The breaker knows whether it is still open. A call that it admits is a trial and is sent alone.
		report, err := n.breaker.Enter()
		if err != nil {
			return outcome{}, err
		}
		c := n.calls.get(key, r)
		c.others, c.kept = others, true
		go n.trial(c, report)
		return n.await(ctx, c)
	}
	c := n.calls.get(key, r)
	c.others = others
	next := n.queue.add(c)
	if client := n.clientFor(ctx, c, next); client != nil {
		return n.sendInline(ctx, c, client, next)
	}
	if !next.idle() {
		go n.perform(next, nil)
	}
	return n.await(ctx, c)
}

// flyAlone sends c in its caller's own goroutine, by a client that returns in time. That spares a change of goroutines,
// which is what a lone decision costs most. A caller who is cancelled meanwhile returns late, by at most the timeout.
func (n *node) sendInline(ctx context.Context, c *call, client redis.UniversalClient, number task) (outcome, error) {
	defer func() { // also if a hook ends the goroutine
		if next := n.queue.completed(number); !next.idle() {
			go n.perform(next, nil)
		}
	}()
	c.own = true
	n.sendBatch(number, nil, client)
	o := c.outcome
	n.calls.put(c)
	if o.err != nil && ctx.Err() != nil {
		o.err = ctx.Err()
	}
	return o, o.err
}

// await returns the answer to c, or the error of ctx if that ends first. A call that was not sent is not sent then, unless
// it returns tokens: those come back whether or not anybody waits.
func (n *node) await(ctx context.Context, c *call) (outcome, error) {
	select {
	case <-c.done:
		o := c.outcome
		n.calls.put(c)
		return o, o.err
	case <-ctx.Done():
		if c.request.Gives() || c.state.CompareAndSwap(waiting, left) {
			return outcome{}, ctx.Err()
		}
		if r := &c.request; r.Action == bucket.Reserve || r.Action == bucket.Await {
			go n.forget(c, bucketname.Of(r).Clone()) // the key may be reused when the caller has its error
		}
		return outcome{}, ctx.Err()
	}
}

// forget cancels the reservation that c brings when it has landed: its caller has left and knows nothing of it.
func (n *node) forget(c *call, b bucketname.Name) {
	<-c.done
	r, a := &c.request, &c.outcome.answer
	if c.outcome.err != nil || !a.Allowed || r.N == 0 {
		return
	}
	_, _ = n.decide(context.Background(), c.key, store.NewRequest(b.Policy, b.Key, bucket.Request{
		Plan: r.Plan, Action: bucket.End, Ends: bucket.Ending{Ticket: r.Ticket, At: a.Due, Back: r.N},
	}), nil)
}

// clientFor returns a client that c's caller may wait for, if c departs alone: one that returns in time for the timeout
// and for the caller's own deadline. If there is none, or the process is crowded, it returns nil. So it does if c may have to wait
// for the server to decide others first: that prolongs the timeout, and a client's deadline can't be moved.
func (n *node) clientFor(ctx context.Context, c *call, next task) redis.UniversalClient {
	if len(next.batch) != 1 || next.batch[0] != c {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.deadline(n.timeout).Add(n.timeout/shares)) {
		return nil
	}
	if scheduler.Crowded() || next.load-next.weight >= maxBatch {
		return nil
	}
	if !n.server.inline {
		return nil
	}
	return n.server.client
}

// trial sends c to learn whether Redis is back, as soon as there is a connection. c's caller waits no longer for that
// than for anything else. If it leaves, the next call that the breaker admits is the trial.
func (n *node) trial(c *call, report func(error)) {
	c.since = time.Now()
	if nth := n.queue.connectFirst(); nth > 0 {
		queueTimer := time.AfterFunc(n.timeout-scheduler.Swift, func() {
			scheduler.KeepUp(n.queue.longestWait)
			if late := claim([]*call{c}, left); len(late) > 0 {
				n.fail(late, breaker.Unanswered, n.server.noConnection(n.client, n.timeout))
			}
		})
		err := n.connect()
		n.queue.connected(nth, err)
		queueTimer.Stop()
		switch {
		case c.state.Load() == waiting: // its flight is the trial
		case lost(err):
			report(err)
			return
		default:
			report(breaker.CallerLeft{Cause: context.Canceled})
			return
		}
	}
	n.perform(n.queue.single(c), report)
}

// expire answers the calls that have waited in the queue for too long. That is a failure of Redis only where they waited
// for a connection.
func (n *node) expire() {
	if n.queue.hasLate() { // or those who would answer them may be late
		scheduler.KeepUp(n.queue.longestWait)
	}
	late, why := n.queue.overdue()
	late = claim(late, left)
	switch {
	case len(late) == 0:
	case why == queueTimeout:
		n.fail(late, breaker.Waited, fmt.Errorf("waited for others to be sent: %w", timeoutError(n.queue.longestWait)))
	case why == noConnection:
		err := n.server.noConnection(n.client, n.timeout)
		n.breaker.Fail(late[0].since, err)
		n.fail(late, breaker.Unanswered, err)
	default:
		n.fail(late, breaker.Unanswered, timeoutError(n.timeout))
	}
}
