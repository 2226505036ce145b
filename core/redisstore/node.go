package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/scheduler"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// node is one server as a store sees it: the decisions that wait for it, its calls under way, how far away it is, and its
// breaker. Nodes share none of these, so a server that does not answer concerns its own keys alone.
type node struct {
	*sender

	router  router        // of several nodes; nil: one server has all keys
	client  *redis.Client // its server's; nil: the store's client knows where to send
	breaker *breaker.Breaker
	queue   queue
}

// router finds the nodes of keys, where there are several.
type router interface {
	// connected notes that n is connected to its servers.
	connected(n *node)
	// sort queues those of n's calls again that another node has the keys of, and returns the rest.
	sort(n *node, calls []*call) (own []*call)
	// wanders reports whether n is the node of slots that no server is known to have.
	isUnassigned(n *node) bool
	// refused notes that a server does not have the slot of c. It queues c again, with others of such slots, if requeue is set.
	refused(c *call, requeue bool)
	// found notes that a server has the slot of c.
	found(c *call)
}

// enqueue puts c into the queue, which waited for another node or was refused by one.
func (n *node) requeue(c *call) {
	if next := n.queue.add(c); !next.idle() {
		go n.perform(next, nil)
	}
}

// depart does what a departure says, and then sends what has come meanwhile, until nobody waits. report is the
// breaker's for the first flight; if it is nil the breaker is asked.
func (n *node) perform(next task, report func(error)) {
	for !next.idle() {
		switch {
		case next.connect > 0:
			began := time.Now()
			err := n.connect()
			if lost(err) {
				n.breaker.Fail(began, err)
			}
			next = n.queue.beginConnected(next.connect, err)
		case next.after > 0:
			time.Sleep(next.after)
			next = n.queue.waited()
		case !n.sendBatch(next, report, nil):
			return // the flight was given up, and another goroutine goes on
		default:
			// Callers that have their answers may ask again: what they ask goes with the next flight, if they run first.
			runtime.Gosched()
			next, report = n.queue.completed(next), nil
		}
	}
}

// connect waits until there is a connection to the server. Where the store's client knows where to send, it waits for that
// client to be ready.
func (n *node) connect() error {
	if n.isUnassigned() { // the client tries whichever servers it likes
		return nil
	}
	err := n.server.connect(n.client)
	if n.router != nil && !lost(err) {
		n.router.connected(n)
	}
	return err
}

// fly sends one batch, if the breaker admits it, by a client that returns in time. Without one, nil, the flight is guarded
// and may be given up; fly returns false then.
func (n *node) sendBatch(next task, report func(error), client redis.UniversalClient) (completed bool) {
	calls := next.batch
	if n.router != nil && report == nil && client == nil {
		calls = n.router.sort(n, calls)
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
		return n.sendWithWatchdog(calls, next, now, report)
	}
	outcomes, err := n.exchange(n.server.within(false, now), client, calls)
	if err != nil && time.Since(now) >= n.timeout { // in the words of go-redis it is one of several errors
		err = fmt.Errorf("%w: %w", n.server.late(), err)
	}
	n.noteResult(next, now, err, report)
	n.answer(calls, outcomes, err)
	return true
}

// exchange sends calls by client.
func (n *node) exchange(ctx context.Context, client redis.UniversalClient, calls []*call) ([]outcome, error) {
	n.traffic.count(len(calls))
	return n.server.send(ctx, client, calls, n.isUnassigned())
}

// heard takes in what became of a flight that began at began.
func (n *node) noteResult(number task, began time.Time, err error, report func(error)) {
	n.queue.note(number, time.Since(began), err)
	if n.router != nil && err == nil {
		n.router.connected(n)
	}
	if n.router != nil && ofSlot(err) {
		err = nil // the server is well
	}
	report(err)
}

// answer answers calls that the node has heard of.
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

// wanders reports whether n is the node of slots that no server is known to have.
func (n *node) isUnassigned() bool { return n.router != nil && n.router.isUnassigned(n) }

// route tells the router which slots the server does not have, and which one does. Calls that were refused beside others are
// queued again, by themselves; route returns the rest. A call alone was sent again already.
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

// flyGuarded sends calls and answers each of them, at the latest when its caller has waited for the store's timeout. If
// the flight itself takes that long it is given up, so that those who wait for the next are not late too.
func (n *node) sendWithWatchdog(calls []*call, number task, began time.Time, report func(error)) (completed bool) {
	w := &watchdog{calls: calls, end: began.Add(n.timeout)}
	w.mu.Lock() // until the timer is set, which its function resets
	w.timer = time.AfterFunc(time.Until(calls[0].deadline(n.timeout))-scheduler.Swift, func() {
		scheduler.KeepUp(longestWait * n.timeout)
		turn := n.queue.turn(number)
		if latest := began.Add((longestWait - 1) * n.timeout); turn.After(latest) {
			turn = latest // then the flight's context ends
		}
		late, givenUp := w.overdue(n.timeout, turn)
		err := n.server.late()
		if givenUp {
			n.noteResult(number, began, err, report)
		}
		n.fail(late, breaker.Unanswered, err)
		if givenUp {
			n.perform(n.queue.completed(number), nil)
		}
	})
	w.mu.Unlock()
	// Longer than the timeout: an answer that has come in time may be read late. See scheduler.KeepUp.
	outcomes, err := n.exchange(n.server.within(true, began), n.server.client, calls)
	rest, givenUp := w.complete()
	if !givenUp {
		n.noteResult(number, began, err, report)
	}
	if outcomes != nil {
		outcomes = outcomes[len(calls)-len(rest):]
	}
	for _, c := range rest {
		c.completed = true
	}
	n.answer(rest, outcomes, err)
	return !givenUp
}

// fail answers calls, that nobody else does, with an error.
func (n *node) fail(calls []*call, fate breaker.Fate, err error) {
	n.breaker.Decided(len(calls), fate, err)
	finish(calls, nil, err)
}

// watched is a flight whose callers do not wait for go-redis. That may be stuck: it does not always stop reading when a
// context ends.
type watchdog struct {
	mu    sync.Mutex // guards all below
	timer *time.Timer
	calls []*call // that are not answered yet, in the order of their coming
	end   time.Time
	over  bool // landed, or given up
}

// nearly is how much earlier than its end a flight may be given up, so that it ends together with the call of a
// caller who did not have to wait for it.
const nearly = time.Millisecond

// overdue takes the calls whose time is up, which begins no earlier than the server's turn. It sets the timer for the next, or
// gives the flight up. If the flight has landed it does nothing.
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
	w.over = !now.Before(w.end.Add(-nearly))
	due := func(c *call) time.Time {
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
		w.timer.Reset(next.Sub(now) - scheduler.Swift)
	}
	return late, w.over
}

// land takes the calls whose time is not up. It reports whether the flight was given up before.
func (w *watchdog) complete() (rest []*call, givenUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	rest, w.calls = w.calls, nil
	givenUp, w.over = w.over, true
	return rest, givenUp
}
