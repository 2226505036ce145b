package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/circuit"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// node sends the decisions of one server. It has a queue, the batches in flight, an estimate of the round trip, and a breaker.
// Nodes share none of these, so a server that does not answer concerns its own keys alone.
//
// A goroutine that performs a task sends a batch, answers its calls, and sends the next batch until the queue is empty.
type node struct {
	*sender

	router  router        // of a Cluster or a Ring; nil: one server has all keys
	client  *redis.Client // the server's own client; nil: the store's client chooses the server
	breaker *circuit.Breaker
	queue   queue
}

// router finds the nodes of keys on a Cluster or a Ring. See nodes.
type router interface {
	// connected notes that n has a connection.
	connected(n *node)
	// reroute moves those of n's calls that another node has the keys of to that node's queue, and returns the rest.
	reroute(n *node, calls []*call) (own []*call)
	// isUnassigned reports whether n is the node of slots that no server is known to have.
	isUnassigned(n *node) bool
	// refused notes that a server does not have the slot of c. It queues c again, with others of such slots, if requeue is set.
	refused(c *call, requeue bool)
	// found notes that a server has the slot of c.
	found(c *call)
}

// requeue enqueues c, which was in another node's queue or was refused by another server.
func (n *node) requeue(c *call) {
	if next := n.queue.add(c); !next.idle() {
		go n.perform(next, nil)
	}
}

// perform performs a task, and then the next one of the queue, until there is none. report tells the breaker the result of the
// first batch; if it is nil, sendBatch asks the breaker.
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
			return // the watchdog gave the batch up, and its goroutine performs the next task
		default:
			// Callers that just got their answers may ask again. If they run first, their requests are in the next batch.
			runtime.Gosched()
			next, report = n.queue.completed(next), nil
		}
	}
}

// connect waits until there is a connection to the node's server, or if that is not known, to the servers of the store's client.
func (n *node) connect() error {
	if n.isUnassigned() { // which server the client will try is not known
		return nil
	}
	err := n.server.connect(n.client)
	if n.router != nil && !lost(err) {
		n.router.connected(n)
	}
	return err
}

// sendBatch sends one batch, if the breaker admits it, and answers its calls. With a client, whose commands must end with their
// contexts, it sends in this goroutine and waits. With nil a watchdog bounds the callers' wait. It returns false if the watchdog
// gave the batch up.
func (n *node) sendBatch(next task, report func(error), inline bool) (completed bool) {
	calls := next.batch
	if n.router != nil && report == nil && !inline {
		calls = n.router.reroute(n, calls)
	}
	calls = claim(calls, sent)
	if len(calls) == 0 { // all were abandoned, or are queued at other nodes now
		if report != nil {
			report(circuit.CallerDone{Cause: context.Canceled}) // every trial needs a report: the breaker admits no other until then
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
	// The time from now on counts for Redis' timeout. The time in the queue does not.
	now := time.Now()
	if !inline {
		return n.sendWithWatchdog(calls, next, now, report)
	}
	outcomes, err := n.sendCalls(n.server.contextFor(false, now), calls)
	if err != nil && time.Since(now) >= n.timeout { // go-redis reports a timeout as one of several errors
		err = fmt.Errorf("%w: %w", n.server.timedOut(), err)
	}
	n.noteResult(next, now, err, report)
	n.answer(calls, outcomes, err)
	return true
}

// sendCalls sends calls and counts them. It returns what server.send does.
func (n *node) sendCalls(ctx context.Context, calls []*call) ([]outcome, error) {
	n.traffic.count(len(calls))
	return n.server.send(ctx, calls, n.isUnassigned())
}

// noteResult tells the queue, the router and the breaker the result of a batch that was sent at began.
func (n *node) noteResult(sending task, began time.Time, err error, report func(error)) {
	n.queue.note(sending, time.Since(began), err)
	if n.router != nil && err == nil {
		n.router.connected(n)
	}
	if n.router != nil && ofSlot(err) {
		err = nil // the server works: only the slot is elsewhere
	}
	report(err)
}

// answer gives calls their outcomes and counts them for the log of outages.
func (n *node) answer(calls []*call, outcomes []outcome, err error) {
	if n.router != nil {
		calls, outcomes = n.route(calls, outcomes, err)
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
	finish(calls, outcomes, err)
}

// isUnassigned reports whether n is the node of slots that no server is known to have.
func (n *node) isUnassigned() bool { return n.router != nil && n.router.isUnassigned(n) }

// route tells the router which slots the server refused, and which unassigned slots a server has again. A call that was refused
// in a batch with others is queued again, if its caller still has time; route returns the rest. A single refused call is not
// queued again, because server.pipeline has already retried it.
func (n *node) route(calls []*call, outcomes []outcome, err error) ([]*call, []outcome) {
	isUnassigned := n.isUnassigned()
	kept := 0
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		switch {
		case isUnassigned && o.err == nil:
			n.router.found(c)
		case !isUnassigned && o.err != nil && ofSlot(o.err):
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

// sendWithWatchdog sends calls in this goroutine, while a watchdog fails each call whose caller has waited for the store's
// timeout. If the batch itself takes that long, the watchdog gives it up and performs the next task, so that queued calls
// are not late too. It returns false then.
func (n *node) sendWithWatchdog(calls []*call, sending task, began time.Time, report func(error)) (completed bool) {
	w := &watchdog{calls: calls, end: began.Add(n.timeout)}
	w.mu.Lock() // the timer's function may run before w.timer is set, and resets it
	w.timer = time.AfterFunc(time.Until(calls[0].deadline(n.timeout))-scheduler.FastTurn, func() {
		// If this process is behind, the answer may be here already: give its reader time to run.
		scheduler.KeepUp(longestWait * n.timeout)
		turn := n.queue.turn(sending)
		// The batch's context ends after longestWait timeouts, so the last turn that is worth a whole timeout is one before.
		if latest := began.Add((longestWait - 1) * n.timeout); turn.After(latest) {
			turn = latest
		}
		late, givenUp := w.overdue(n.timeout, turn)
		err := n.server.timedOut()
		if givenUp {
			n.noteResult(sending, began, err, report)
		}
		n.fail(late, circuit.Unanswered, err)
		if givenUp {
			n.perform(n.queue.completed(sending), nil)
		}
	})
	w.mu.Unlock()
	// This context lasts longer than the timeout, because the watchdog enforces that: see scheduler.KeepUp.
	outcomes, err := n.sendCalls(n.server.contextFor(true, began), calls)
	rest, givenUp := w.complete()
	if !givenUp {
		n.noteResult(sending, began, err, report)
	}
	if outcomes != nil { // the watchdog has failed the first calls, which came earliest
		outcomes = outcomes[len(calls)-len(rest):]
	}
	for _, c := range rest {
		c.released = true
	}
	n.answer(rest, outcomes, err)
	return !givenUp
}

// fail answers claimed calls with an error.
func (n *node) fail(calls []*call, result circuit.Outcome, err error) {
	n.breaker.Count(len(calls), result, err)
	finish(calls, nil, err)
}
