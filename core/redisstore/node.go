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

// node sends the calls for the keys of one server. It has a queue, batches in flight, an estimate of the round trip, and a breaker.
// Nodes share none of these, so a server that does not answer concerns its own keys alone.
//
// No goroutine waits for work. decide starts one for each task of the queue that its own goroutine does not perform; that one sends
// a batch, answers its calls, and goes on with the queue's next task until there is none.
type node struct {
	*sender

	router  router        // of a Cluster or a Ring; nil: one server has all keys
	client  *redis.Client // of this server alone, to connect: batches go through the store's client; nil: that one chooses the server
	breaker *circuit.Breaker
	kept    *circuit.Kept // what callers have returned while the server was away
	queue   queue
}

// router is what a node needs of nodes, which implements it.
type router interface {
	// connected notes that n has a connection.
	connected(n *node)
	// reroute moves those of n's calls that are for the keys of other nodes to their queues, and returns the rest.
	reroute(n *node, calls []*call) (own []*call)
	// find returns the node of key.
	find(key string) *node
	// isUnassigned reports whether n is the node of unassigned hash slots: those that a server has refused.
	isUnassigned(n *node) bool
	// refused notes that a server has refused the hash slot of c, and enqueues c at the node of unassigned hash slots if requeue is set.
	refused(c *call, requeue bool)
	// found notes that a server has decided c, so its hash slot is no longer unassigned.
	found(c *call)
}

// requeue enqueues c, which comes from another node.
func (n *node) requeue(c *call) {
	if next := n.queue.add(c); !next.idle() {
		go n.perform(next, nil)
	}
}

// perform performs a task, and then the next one of the queue, until there is none. If report is not nil, the breaker has admitted
// the first batch as a trial, and report gives it the result.
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
			// Callers that just got their answers may ask again. If they run first, their requests are in the next batch.
			runtime.Gosched()
			next, report = n.queue.completed(next), nil
		}
	}
}

// connect waits until there is a connection to the node's server, or if n.client is nil, to the servers of the store's client.
func (n *node) connect() error {
	if n.isUnassigned() { // it is not known to which server
		return nil
	}
	err := n.server.connect(n.client)
	if n.router != nil && !lost(err) {
		n.router.connected(n)
	}
	return err
}

// sendBatch sends a batch, if the breaker admits it, and answers its calls. report is that of perform. inline means that this is the
// goroutine of the only call's caller; the context then bounds the wait, and otherwise a watchdog does. sendBatch returns false if
// the watchdog has given up the batch.
func (n *node) sendBatch(next task, report func(error), inline bool) (completed bool) {
	calls := next.batch
	if n.router != nil && report == nil && !inline {
		calls = n.router.reroute(n, calls)
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
			n.finish(calls, nil, err)
			return true
		}
	}
	now := time.Now()
	if !inline {
		return n.sendWithWatchdog(calls, next, now, report)
	}
	outcomes, err := n.sendCalls(n.server.contextFor(false, now), calls)
	if err != nil && time.Since(now) >= n.timeout { // go-redis reports a timeout as one of several errors
		err = fmt.Errorf("%w: %w", n.server.timedOut(), err)
	}
	n.keepTrial(calls, err)
	n.noteResult(next, now, err, report)
	n.answer(calls, outcomes, err)
	return true
}

// sendCalls counts and sends calls. It returns what server.send does.
func (n *node) sendCalls(ctx context.Context, calls []*call) ([]outcome, error) {
	n.traffic.count(len(calls))
	return n.server.send(ctx, calls, n.isUnassigned())
}

// noteResult gives the queue, the router and the breaker the result of a batch that was sent at began.
func (n *node) noteResult(sending task, began time.Time, err error, report func(error)) {
	n.queue.note(sending, time.Since(began), err)
	if n.router != nil && err == nil {
		n.router.connected(n)
	}
	if n.router != nil && ofHashSlot(err) {
		err = nil // the server works: only the hash slot is elsewhere
	}
	report(err)
}

// answer gives calls their outcomes, but for those that noteHashSlots queues again, and counts them for the log of outages.
func (n *node) answer(calls []*call, outcomes []outcome, err error) {
	if n.router != nil {
		calls, outcomes = n.noteHashSlots(calls, outcomes, err)
	}
	answered, refused := 0, 0
	last := err
	for i := range calls {
		switch o := outcomeOf(i, outcomes, err); {
		case o.err == nil || errors.As(o.err, new(*store.StateError)):
			answered++
		default:
			refused, last = refused+1, o.err
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
	n.finish(calls, outcomes, err)
}

// isUnassigned reports whether n is the node of unassigned hash slots.
func (n *node) isUnassigned() bool { return n.router != nil && n.router.isUnassigned(n) }

// noteHashSlots tells the router which hash slots the server has refused, and which unassigned hash slots a server has again. A refused call that
// was in a batch with others goes into the queue of unassigned hash slots, unless its timeout has passed; noteHashSlots returns the rest. A
// refused call that was alone does not, because server.pipeline has already sent it several times.
func (n *node) noteHashSlots(calls []*call, outcomes []outcome, err error) ([]*call, []outcome) {
	isUnassigned := n.isUnassigned()
	kept := 0
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		switch {
		case isUnassigned && o.err == nil:
			n.router.found(c)
		case !isUnassigned && o.err != nil && ofHashSlot(o.err):
			requeue := len(outcomes) > 1 && time.Now().Before(c.deadline(n.timeout))
			if n.router.refused(c, requeue); requeue {
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

// sendWithWatchdog sends calls in this goroutine, while a watchdog fails each call whose timeout has passed. If the batch itself
// takes that long, the watchdog gives it up: its goroutine reports the failure and performs the queue's next task, so that queued
// calls need not wait for this goroutine. sendWithWatchdog then returns false.
func (n *node) sendWithWatchdog(calls []*call, sending task, began time.Time, report func(error)) (completed bool) {
	w := &watchdog{calls: calls, end: began.Add(n.timeout)}
	w.mu.Lock() // w.overdue uses w.timer, and may run before it is set
	w.timer = time.AfterFunc(time.Until(calls[0].deadline(n.timeout))-scheduler.FastTurn, func() {
		// In a process that does not keep up, the answer may be here already: give its reader time to run.
		scheduler.KeepUp(longestWait * n.timeout)
		turn := n.queue.turn(sending)
		// A timeout that begins at turn must end before the batch's context, longestWait timeouts after began.
		if latest := began.Add((longestWait - 1) * n.timeout); turn.After(latest) {
			turn = latest
		}
		late, givenUp := w.overdue(n.timeout, turn)
		err := n.server.timedOut()
		if givenUp {
			n.keepTrial(late, err)
			n.noteResult(sending, began, err, report)
		}
		n.fail(late, circuit.Unanswered, err)
		if givenUp {
			n.perform(n.queue.completed(sending), nil)
		}
	})
	w.mu.Unlock()
	outcomes, err := n.sendCalls(n.server.contextFor(true, began), calls)
	rest, givenUp := w.complete()
	if !givenUp {
		n.keepTrial(rest, err)
		n.noteResult(sending, began, err, report)
	}
	if outcomes != nil { // rest are the last of calls: the watchdog fails calls in their order
		outcomes = outcomes[len(calls)-len(rest):]
	}
	for _, c := range rest {
		c.released = true
	}
	n.answer(rest, outcomes, err)
	return !givenUp
}

// fail answers calls, which the caller has claimed, with an error, and counts them for the log of outages.
func (n *node) fail(calls []*call, result circuit.Outcome, err error) {
	n.breaker.Count(len(calls), result, err)
	n.finish(calls, nil, err)
}

// finish gives each call its outcome, or err if outcomes is nil, and wakes its caller. Of calls that failed, it keeps what should be
// sent later.
func (n *node) finish(calls []*call, outcomes []outcome, err error) {
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		if o.err != nil && !c.kept {
			unsent := c.state.Load() == abandoned
			n.keep(&c.member, o.err, unsent)
			for j := range c.others {
				n.keep(&c.others[j], o.err, unsent)
			}
		}
		c.outcome = o
		if !c.inline {
			c.done <- struct{}{}
		}
	}
}

// keepTrial does what finish does for a trial that failed, before the breaker learns it: the next trial must find what this one has not
// sent. A trial whose hash slot is elsewhere is sent again, and has not failed yet.
func (n *node) keepTrial(calls []*call, err error) {
	for _, c := range calls {
		if !c.trial || err == nil || ofHashSlot(err) {
			continue
		}
		n.keep(&c.member, err, false)
		for i := range c.others {
			n.keep(&c.others[i], err, false)
		}
		c.kept = true
	}
}

// keep keeps what should be sent later of a request that failed with err. unsent means that it was not sent. Of m only the key in
// Redis and the request are kept: the goroutine that sends m may be writing its calendars. The request's own key may be a view of memory
// that its caller has reused by now, and nothing below reads it.
func (n *node) keep(m *member, err error, unsent bool) {
	if errors.Is(err, redis.ErrClosed) { // no server of this client will ever be back
		return
	}
	unsent = unsent || errors.Is(err, core.ErrBreakerOpen) || notExecuted(err) || wroteNothing(err)
	if later, some := circuit.Later(m.request, err, unsent); some {
		n.kept.Add(circuit.Returned{Key: m.key, Request: later})
	}
}

// sendKept enqueues requests, in front of all that come later. Nobody waits for them. Some may be for another server by now.
func (n *node) sendKept(requests []circuit.Returned) {
	for _, r := range requests {
		n.nodeOf(r.Key).requeue(n.calls.get(r.Key, r.Request))
	}
}

// nodeOf returns the node of key.
func (n *node) nodeOf(key string) *node {
	if n.router == nil {
		return n
	}
	return n.router.find(key)
}
