package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/circuit"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// node sends the calls for the keys of one server. Nodes share no queue, no
// batches in flight and no breaker, so a server that does not answer concerns
// its own keys alone.
//
// No goroutine waits for work. decide starts one for each task of the queue
// that its own goroutine does not perform.
type node struct {
	*server

	nodes   *nodes        // of the same store
	only    *redis.Client // of this server alone, to connect: batches go through the store's client; nil: that one chooses the server
	breaker *circuit.Breaker
	backlog *circuit.Backlog // what callers have returned while the server was away
	queue   queue
}

// requeue enqueues c, which comes from another node.
func (n *node) requeue(c *call) { n.start(n.queue.add(c)) }

// start has a new goroutine perform a task, if there is anything to do.
func (n *node) start(next task) {
	if !next.idle() {
		go n.perform(next, nil)
	}
}

// perform performs a task, and then the next one of the queue, until there is
// none. If report is not nil, the breaker has admitted the first batch as a
// trial, and report gives it the result.
func (n *node) perform(next task, report func(error)) {
	for !next.idle() {
		switch {
		case next.connect > 0:
			began := time.Now()
			err := n.connect()
			if lost(err) {
				n.breaker.Fail(began, err)
			}
			next = n.queue.connected(next.connect, err)
		case next.after > 0:
			time.Sleep(next.after)
			next = n.queue.waited()
		case !n.sendBatch(next, report, false):
			return // the watchdog has given up the batch, and performs the next task
		default:
			runtime.Gosched() // callers that ask again at once are in the next batch
			next, report = n.queue.completed(next), nil
		}
	}
}

// connect waits until there is a connection to the node's server, or if n.only
// is nil, to the servers of the store's client.
func (n *node) connect() error {
	if n.isUnassigned() { // it is not known to which server
		return nil
	}
	err := n.server.connect(n.only)
	if !lost(err) {
		n.nodes.connected(n)
	}
	return err
}

// sendBatch sends a batch, if the breaker admits it, and answers its calls. A
// context bounds the wait if inline, which means that this is the goroutine of
// the only call's caller. Otherwise a watchdog does, and sendBatch returns false
// if that has given up the batch. report is that of perform.
func (n *node) sendBatch(next task, report func(error), inline bool) (completed bool) {
	calls := next.batch
	if report == nil && !inline {
		calls = n.nodes.reroute(n, calls)
	}
	calls = claim(calls, sent)
	if len(calls) == 0 { // all were abandoned or rerouted
		if report != nil { // the breaker admits no other trial until it has the report of this one
			report(circuit.CallerDone{Cause: context.Canceled})
		}
		return true
	}
	if report == nil {
		var err error
		if report, err = n.breaker.Enter(); err != nil {
			n.finish(calls, failed(len(calls), err))
			return true
		}
	}
	now := time.Now()
	if !inline {
		return n.sendWithWatchdog(calls, next, now, report)
	}
	outcomes, err := n.sendCalls(n.contextFor(false, now), calls)
	if err != nil && time.Since(now) >= n.timeout { // go-redis reports a timeout as one of several errors
		err = fmt.Errorf("%w: %w", n.timedOut(), err)
		outcomes = failed(len(calls), err)
	}
	n.noteResult(next, calls, now, err, report)
	n.answer(calls, outcomes)
	return true
}

// sendCalls counts and sends calls. It returns the outcome of each, and if no
// server has decided any, the error that the breaker counts.
func (n *node) sendCalls(ctx context.Context, calls []*call) ([]outcome, error) {
	n.traffic.count(len(calls))
	outcomes, err := n.server.send(ctx, calls, n.isUnassigned())
	if outcomes == nil {
		outcomes = failed(len(calls), err)
	}
	return outcomes, err
}

// noteResult gives the queue, the nodes and the breaker the result of a batch
// that was sent at began. calls are those that are not answered yet.
func (n *node) noteResult(sending task, calls []*call, began time.Time, err error, report func(error)) {
	n.queue.note(sending, time.Since(began), err)
	if err == nil {
		n.nodes.connected(n)
	}
	for _, c := range calls {
		if c.trial && err != nil && !ofHashSlot(err) { // a trial whose hash slot is elsewhere is sent again
			n.keepFailed(c, err) // before the breaker learns it: the next trial must find what this one has not sent
		}
	}
	if n.nodes.several() && ofHashSlot(err) {
		err = nil // the server works: only the hash slot is elsewhere
	}
	report(err)
}

// answer gives calls their outcomes, but for those that noteHashSlots queues
// again, and counts them for the log of outages.
func (n *node) answer(calls []*call, outcomes []outcome) {
	if n.nodes.several() {
		calls, outcomes = n.noteHashSlots(calls, outcomes)
	}
	answered, refused := 0, 0
	var last error
	for i := range outcomes {
		switch err := outcomes[i].err; {
		case err == nil || errors.As(err, new(*store.StateError)):
			answered++
		default:
			refused, last = refused+1, err
		}
	}
	n.breaker.Count(answered, circuit.Answered, nil)
	if refused > 0 {
		result := circuit.Refused
		if lost(last) {
			result = circuit.Unanswered
		}
		n.breaker.Count(refused, result, last)
	}
	n.finish(calls, outcomes)
}

// isUnassigned reports whether n is the node of unassigned hash slots.
func (n *node) isUnassigned() bool { return n == n.nodes.unassigned }

// noteHashSlots notes which hash slots the server has refused, and which
// unassigned ones a server has again. A refused call that was in a batch with
// others goes to the node of unassigned hash slots, unless its timeout has
// passed; server.pipeline has already sent again one that was alone.
// noteHashSlots returns the rest.
func (n *node) noteHashSlots(calls []*call, outcomes []outcome) ([]*call, []outcome) {
	isUnassigned, kept := n.isUnassigned(), 0
	for i, c := range calls {
		switch err := outcomes[i].err; {
		case isUnassigned && err == nil:
			n.nodes.unassignedHashSlots.remove(c.key)
		case !isUnassigned && err != nil && ofHashSlot(err):
			n.nodes.unassignedHashSlots.add(c.key)
			if len(calls) > 1 && time.Now().Before(c.deadline(n.timeout)) {
				c.released = false
				c.state.Store(waiting)
				n.nodes.unassigned.requeue(c)
				continue
			}
		}
		calls[kept], outcomes[kept] = c, outcomes[i]
		kept++
	}
	return calls[:kept], outcomes[:kept]
}

// sendWithWatchdog sends calls, while a watchdog fails each call whose timeout
// has passed. If the batch itself takes that long, the watchdog gives it up: it
// reports the failure and performs the queue's next task, and sendWithWatchdog
// returns false.
func (n *node) sendWithWatchdog(calls []*call, sending task, began time.Time, report func(error)) (completed bool) {
	w := &watchdog{calls: calls, end: began.Add(n.timeout)}
	w.mu.Lock() // w.overdue uses w.timer, and may run before it is set
	w.timer = time.AfterFunc(time.Until(calls[0].deadline(n.timeout))-scheduler.FastTurn, func() {
		// In a process that does not keep up, the answer may be here already.
		scheduler.KeepUp(longestWait * n.timeout)
		turn := n.queue.turn(sending)
		// A timeout that begins at turn must end before the batch's context,
		// longestWait timeouts after began.
		if latest := began.Add((longestWait - 1) * n.timeout); turn.After(latest) {
			turn = latest
		}
		late, givenUp := w.overdue(n.timeout, turn)
		err := n.timedOut()
		if givenUp {
			n.noteResult(sending, late, began, err, report)
		}
		n.fail(late, circuit.Unanswered, err)
		if givenUp {
			n.perform(n.queue.completed(sending), nil)
		}
	})
	w.mu.Unlock()
	outcomes, err := n.sendCalls(n.contextFor(true, began), calls)
	rest, givenUp := w.complete()
	if !givenUp {
		n.noteResult(sending, rest, began, err, report)
	}
	for _, c := range rest {
		c.released = true
	}
	n.answer(rest, outcomes[len(calls)-len(rest):]) // rest are the last of calls: the watchdog fails calls in their order
	return !givenUp
}

// fail answers calls, which the caller has claimed, with an error, and counts
// them for the log of outages.
func (n *node) fail(calls []*call, result circuit.Status, err error) {
	n.breaker.Count(len(calls), result, err)
	n.finish(calls, failed(len(calls), err))
}

// finish gives each call its outcome, and wakes its caller. Of calls that
// failed, it keeps what should be sent later.
func (n *node) finish(calls []*call, outcomes []outcome) {
	for i, c := range calls {
		if err := outcomes[i].err; err != nil {
			n.keepFailed(c, err)
		}
		c.outcome = &outcomes[i]
		if !c.inline {
			c.done <- struct{}{}
		}
	}
}

// keepFailed keeps, once, what should be sent later of c, which failed with
// err.
func (n *node) keepFailed(c *call, err error) {
	if !c.kept {
		c.kept = true
		for m := range c.members() {
			n.keep(m, err, c.state.Load() == abandoned)
		}
	}
}

// keep keeps what should be sent later of a request that failed with err, or was
// not sent. It does not read the request's own key, whose memory its caller may
// have reused.
func (n *node) keep(m *member, err error, unsent bool) {
	if errors.Is(err, redis.ErrClosed) { // no server of this client will ever be back
		return
	}
	unsent = unsent || errors.Is(err, core.ErrBreakerOpen) || notExecuted(err) || wroteNothing(err)
	if later, some := circuit.Later(m.request, err, unsent); some {
		n.backlog.Add(circuit.Returned{Key: m.key, Request: later})
	}
}

// sendBacklog enqueues requests for which nobody waits, in front of all that come
// later. Some may be for another server by now.
func (n *node) sendBacklog(requests []circuit.Returned) {
	for _, r := range requests {
		n.nodes.find(r.Key).requeue(n.calls.get(r.Key, &r.Request))
	}
}

// decide makes a call of r, whose key in Redis is key, and of others, which are
// decided together with r. While the breaker is open, the call is refused at
// once, or sent alone as the breaker's trial. Otherwise this goroutine sends it
// if it may, or a new one performs what the queue returns, or the goroutine of a
// batch in flight sends it after that batch.
func (n *node) decide(ctx context.Context, key string, r *store.Request, others []member) (*outcome, error) {
	if n.breaker.Open() {
		n.queue.markUsed()
		// If the breaker has just closed, Enter admits calls that are no trial.
		// They are sent like one.
		report, err := n.breaker.Enter()
		if err != nil {
			n.keep(&member{key: key, request: *r}, err, true)
			return nil, err
		}
		c := n.calls.get(key, r)
		probe, some := n.backlog.Trial()
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
			n.keep(&member{key: key, request: *r}, err, true)
			return nil, err
		}
	}
	c := n.calls.get(key, r)
	c.others = others
	next := n.queue.add(c)
	if n.mayInline(ctx, c, next) {
		return n.sendInline(ctx, c, next)
	}
	n.start(next)
	return n.await(ctx, c)
}

// tryFor sends a request that nobody waits for, and reports whether its server
// decided it.
func (n *node) tryFor(r circuit.Returned) (decided bool) {
	_, err := n.nodes.find(r.Key).decide(context.Background(), r.Key, &r.Request, nil)
	return err == nil
}

// sendInline sends c, the batch of a task, in its caller's goroutine: a switch
// of goroutines is the largest cost of a single decision. When ctx ends, it may
// return up to the store's timeout later.
func (n *node) sendInline(ctx context.Context, c *call, sending task) (*outcome, error) {
	defer func() { n.start(n.queue.completed(sending)) }() // deferred, because a hook of the client may end the goroutine
	c.inline = true
	n.sendBatch(sending, nil, true)
	o := c.outcome
	n.calls.put(c)
	if o.err != nil && ctx.Err() != nil {
		o.err = ctx.Err()
	}
	return o, o.err
}

// await returns the outcome of c, or the error of ctx if that ends first. A call
// that is still queued then is abandoned, unless it returns tokens. If c was
// sent, the tokens that it reserves or holds come back.
func (n *node) await(ctx context.Context, c *call) (*outcome, error) {
	select {
	case <-c.done:
		o := c.outcome
		n.calls.put(c)
		return o, o.err
	case <-ctx.Done():
		if c.request.Gives() || c.state.CompareAndSwap(waiting, abandoned) {
			return nil, ctx.Err()
		}
		if taken := c.holders(); taken != nil {
			go n.undo(c, taken)
		}
		return nil, ctx.Err()
	}
}

// undo waits for c, and returns the tokens that its requests took: its caller
// has got an error, and will never use them.
func (n *node) undo(c *call, taken []member) {
	<-c.done
	answers := c.outcome.joint
	if answers == nil {
		answers = []store.Answer{c.outcome.answer}
	}
	if c.outcome.err != nil || answers[0].Granted == 0 {
		return // nothing was taken
	}
	for i, m := range taken {
		m.request.Request = m.request.Undo(&answers[i])
		m.request = m.request.Later()
		_, _ = n.decide(context.Background(), m.key, &m.request, nil)
	}
}

// mayInline reports whether the goroutine of c's caller may send the task next:
// its batch is c alone, and the client's commands end with their contexts.
func (n *node) mayInline(ctx context.Context, c *call, next task) bool {
	if !n.inline || len(next.batch) != 1 || next.batch[0] != c {
		return false
	}
	// sendInline may return as late as this, and the caller must be back before
	// its own deadline.
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.deadline(n.timeout).Add(n.timeout/contextSlack)) {
		return false
	}
	// A watchdog, but no context, allows for readers that are late in a crowded
	// process, and begins the timeout when a whole batch ahead of c is done.
	return !scheduler.Crowded() && next.load-next.weight < maxBatch
}

// trial sends c, which the breaker has admitted as its trial, as soon as there
// is a connection. report gives the breaker the result. After the timeout c
// fails, and trial waits on for a connection: then the breaker may admit another
// trial, and without one it learns a failure.
func (n *node) trial(c *call, report func(error)) {
	c.since = time.Now()
	if nth := n.queue.connectTrial(); nth > 0 {
		queueTimer := time.AfterFunc(n.timeout-scheduler.FastTurn, func() {
			scheduler.KeepUp(n.queue.longestWait)
			if late := claim([]*call{c}, abandoned); len(late) > 0 {
				n.fail(late, circuit.Unanswered, n.noConnection(n.only, n.timeout))
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

// expire fails the calls that were queued for too long. The breaker counts that
// as one failure if there was no connection.
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
		err := n.noConnection(n.only, n.timeout)
		n.breaker.Fail(late[0].since, err)
		n.fail(late, circuit.Unanswered, err)
	default:
		n.fail(late, circuit.Unanswered, timeoutError(n.timeout))
	}
}
