package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/circuit"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// decide enqueues r and waits for its outcome. It first chooses who sends it:
//
//   - While the breaker is open, r is either refused at once or sent alone as the breaker's trial.
//   - If r is alone in its batch and the client keeps deadlines, this goroutine sends it.
//   - If the queue has another task, a goroutine performs it.
//   - Otherwise r waits for a batch in flight to complete: the goroutine of that batch sends the next.
func (n *node) decide(ctx context.Context, key string, r store.Request, others []member) (outcome, error) {
	if n.breaker.Open() {
		n.queue.markUsed()
		// Open may be out of date. A call that Enter admits is the trial and is sent alone.
		report, err := n.breaker.Enter()
		if err != nil {
			return outcome{}, err
		}
		c := n.calls.get(key, r)
		c.others, c.shared = others, true
		go n.trial(c, report)
		return n.await(ctx, c)
	}
	c := n.calls.get(key, r)
	c.others = others
	next := n.queue.add(c)
	if n.mayInline(ctx, c, next) {
		return n.sendInline(ctx, c, next)
	}
	if !next.idle() {
		go n.perform(next, nil)
	}
	return n.await(ctx, c)
}

// sendInline sends c in its caller's goroutine, by a client whose commands end with their contexts. It saves a switch of
// goroutines, the largest cost of a single decision. A caller whose context ends meanwhile returns late, by the timeout at most.
func (n *node) sendInline(ctx context.Context, c *call, sending task) (outcome, error) {
	defer func() { // deferred, because a hook of the client may end the goroutine
		if next := n.queue.completed(sending); !next.idle() {
			go n.perform(next, nil)
		}
	}()
	c.inline = true
	n.sendBatch(sending, nil, true)
	o := c.outcome
	n.calls.put(c)
	if o.err != nil && ctx.Err() != nil {
		o.err = ctx.Err()
	}
	return o, o.err
}

// await returns the outcome of c, or the error of ctx if that ends first. A call that is still queued is then not sent, except
// if it returns tokens: those come back whether or not anybody waits.
func (n *node) await(ctx context.Context, c *call) (outcome, error) {
	select {
	case <-c.done:
		o := c.outcome
		n.calls.put(c)
		return o, o.err
	case <-ctx.Done():
		if c.request.Gives() || c.state.CompareAndSwap(waiting, abandoned) {
			return outcome{}, ctx.Err()
		}
		if r := &c.request; r.Action == bucket.Reserve || r.Action == bucket.Await {
			go n.cancelReservation(c, r.Clone()) // a clone, because the caller may reuse the key's memory once it has the error
		}
		return outcome{}, ctx.Err()
	}
}

// cancelReservation waits for c, the call of r, and cancels the reservation that it made: the caller has an error and will never use it.
func (n *node) cancelReservation(c *call, r store.Request) {
	<-c.done
	a := &c.outcome.answer
	if c.outcome.err != nil || !a.Allowed || r.N == 0 {
		return
	}
	r.Request = bucket.Request{Plan: r.Plan, Action: bucket.End, Ends: bucket.Ending{Ticket: r.Ticket, At: a.Due, Back: r.N}}
	_, _ = n.decide(context.Background(), c.key, r, nil)
}

// mayInline reports whether c's caller may send the batch of the task next itself.
func (n *node) mayInline(ctx context.Context, c *call, next task) bool {
	if !n.server.inline || len(next.batch) != 1 || next.batch[0] != c {
		return false
	}
	// The call may take this long, and the caller must be back before its own deadline.
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.deadline(n.timeout).Add(n.timeout/contextSlack)) {
		return false
	}
	// With a full batch ahead of c at the server, the timeout begins later: see turn. An inline call can't extend its deadline.
	// In a crowded process only a watchdog can tell a late answer from a late reader.
	return !scheduler.Crowded() && next.load-next.weight < maxBatch
}

// trial sends c, which an open breaker has admitted, as soon as there is a connection. report tells the breaker whether Redis
// is back. c's caller waits for the connection no longer than the timeout. If it does not wait that long, the breaker admits
// another trial.
func (n *node) trial(c *call, report func(error)) {
	c.since = time.Now()
	if nth := n.queue.connectTrial(); nth > 0 {
		queueTimer := time.AfterFunc(n.timeout-scheduler.FastTurn, func() {
			scheduler.KeepUp(n.queue.longestWait)
			if late := claim([]*call{c}, abandoned); len(late) > 0 {
				n.fail(late, circuit.Unanswered, n.server.noConnection(n.client, n.timeout))
			}
		})
		err := n.connect()
		n.queue.trialConnected(nth, err)
		queueTimer.Stop()
		switch {
		case c.state.Load() == waiting: // sending c is the trial, below
		case lost(err):
			report(err)
			return
		default:
			report(circuit.CallerDone{Cause: context.Canceled})
			return
		}
	}
	n.perform(n.queue.startTrial(c), report)
}

// expire fails the calls that have waited in the queue for too long. The breaker counts it only if they waited for a
// connection: otherwise the result of the batch in flight counts.
func (n *node) expire() {
	if n.queue.hasLate() { // the answer may be here, and only its reader late
		scheduler.KeepUp(n.queue.longestWait)
	}
	late, why := n.queue.overdue()
	late = claim(late, abandoned)
	switch {
	case len(late) == 0:
	case why == queueTimeout:
		n.fail(late, circuit.Waited, fmt.Errorf("waited for others to be sent: %w", timeoutError(n.queue.longestWait)))
	case why == noConnection:
		err := n.server.noConnection(n.client, n.timeout)
		n.breaker.Fail(late[0].since, err)
		n.fail(late, circuit.Unanswered, err)
	default:
		n.fail(late, circuit.Unanswered, timeoutError(n.timeout))
	}
}
