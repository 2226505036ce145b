package redisstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/circuit"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// decide makes a call of r, whose key in Redis is key, and of others, which are decided together with r. It returns the outcome. It
// chooses who sends the call:
//
//   - While the breaker is open, the call is refused at once, or sent alone as the breaker's trial. What it returns is kept.
//   - If the call may be sent at once and mayInline, this goroutine sends it.
//   - If the queue returns any other task, a new goroutine performs it.
//   - Otherwise the call waits in the queue, and the goroutine of a batch in flight sends it after that batch.
func (n *node) decide(ctx context.Context, key string, r store.Request, others []member) (outcome, error) {
	if n.breaker.Open() {
		n.queue.markUsed()
		// If the breaker has just closed, Enter admits calls that are no trial. They are sent like one.
		report, err := n.breaker.Enter()
		if err != nil {
			n.keep(&member{key: key, request: r}, err, true)
			return outcome{}, err
		}
		c := n.calls.get(key, r)
		probe, some := n.kept.Probe()
		if some { // what is kept goes first: r follows it in the queue
			c.key, c.request = probe.Key, probe.Request
		} else {
			c.others = others
		}
		c.trial = true
		go n.trial(c, report)
		o, err := n.await(ctx, c)
		if !some {
			return o, err
		}
		if err != nil && (n.breaker.Open() || ctx.Err() != nil) {
			n.keep(&member{key: key, request: r}, err, true)
			return outcome{}, err
		}
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

// tryFor sends a request that nobody waits for, and reports whether its server decided it.
func (n *node) tryFor(r circuit.Returned) (decided bool) {
	_, err := n.nodeOf(r.Key).decide(context.Background(), r.Key, r.Request, nil)
	return err == nil
}

// sendInline sends c, the batch of a task, in this goroutine, that of c's caller. It saves a switch of goroutines, the largest cost
// of a single decision. When ctx ends, it may return up to the store's timeout later.
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

// await returns the outcome of c, or the error of ctx if that ends first. If c is still queued then, it is abandoned, unless it
// returns tokens: these come back whether or not a caller waits. If c was sent, the tokens that it reserves or holds come back.
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
		if taken := c.holders(); taken != nil {
			go n.undo(c, taken)
		}
		return outcome{}, ctx.Err()
	}
}

// undo waits for c, and returns the tokens that its requests took: its caller has got an error, and will never use them.
func (n *node) undo(c *call, taken []member) {
	<-c.done
	answers := c.outcome.joint
	if answers == nil {
		answers = []store.JointAnswer{{Answer: c.outcome.answer, Err: c.outcome.err}}
	}
	if c.outcome.err != nil || slices.ContainsFunc(answers, func(a store.JointAnswer) bool { return a.Err != nil || !a.Allowed }) {
		return // nothing was taken
	}
	for i, m := range taken {
		m.request.Request = m.request.Undo(&answers[i].Answer)
		m.request = m.request.Later()
		_, _ = n.decide(context.Background(), m.key, m.request, nil)
	}
}

// mayInline reports whether the goroutine of c's caller may send the batch of the task next. The batch must be c alone, and the
// client's commands must end with their contexts.
func (n *node) mayInline(ctx context.Context, c *call, next task) bool {
	if !n.server.inline || len(next.batch) != 1 || next.batch[0] != c {
		return false
	}
	// sendInline may return as late as this, and the caller must be back before its own deadline.
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.deadline(n.timeout).Add(n.timeout/contextSlack)) {
		return false
	}
	// In a crowded process, an answer may be in time and only its reader late: a watchdog allows for that. If a whole batch is ahead
	// of c at the server, the timeout begins when that is done: a watchdog can extend it, and a context can't.
	return !scheduler.Crowded() && next.load-next.weight < maxBatch
}

// trial sends c, which the breaker has admitted as its trial, as soon as there is a connection. report gives the breaker the result.
// If there is none within the timeout, c fails, and trial waits on. Without a connection in the end it reports a failure. With one it
// reports [circuit.CallerDone], so that the breaker admits another trial.
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
		case c.state.Load() == waiting: // sent below
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

// expire fails the calls that were queued for too long. If there was no connection, the breaker counts that as one failure. Otherwise
// it counts only the results of the batches in flight.
func (n *node) expire() {
	if n.queue.hasLate() { // the answer that they wait for may be here, and only its reader late
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
