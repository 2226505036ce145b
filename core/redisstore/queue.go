package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/outage"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	// few batches may be in flight at any time, and twice as many while calls for
	// a large batch wait: a server works on one while others are on the way, and
	// answers those together that come together.
	few   = 4
	large = 64
	// many may be in flight if the last one was sent a gap ago, which is how
	// long a server takes for a full batch at most. So a server that is far away
	// gets more of them than one that is near, and none gets more than it can
	// decide.
	many = 32
	gap  = 2 * time.Millisecond
)

// node sends the calls for the keys of one server. Nodes share no queue, no
// batches in flight and no breaker, so a server that does not answer concerns
// its own keys alone.
//
// A call that finds a free place is sent at once, by its caller's goroutine if
// that may wait for the answer: see inline. The others wait in the queue and form
// the next batch, which is sent when one in flight ends. So batches grow with the
// load, and no goroutine waits for work.
type node struct {
	*batches

	only    *redis.Client // of this server alone; nil: the store's client chooses the server
	address string        // for messages
	breaker *outage.Breaker
	most    int // batches in flight: see maxInFlight

	mu       sync.Mutex // guards all below; never held across I/O
	queue    []*call    // in the order of their arrival
	inFlight int        // batches
	lastSent time.Time  // when the last one was sent
	ready    int        // so many batches can be in flight without waiting for a connection
	silent   time.Time  // since then batches got no answer, so other connections may be dead too; zero: they get one
	waking   bool       // a goroutine that connects, or a timer, will send what is queued
	why      error      // a connection could not be made; nil once one is
}

// maxInFlight is how many batches a client may have in flight to each server:
// three quarters of its pool at most, because others may use the client too.
func maxInFlight(poolSize int) int {
	if poolSize == 0 {
		poolSize = 10 // go-redis' default for clients whose options are not known
	}
	return min(many, max(min(poolSize, few), poolSize-poolSize/4))
}

// decide makes a call of r, whose key in Redis is key, and of others, which are
// decided together with r. While the breaker is open, the call is refused at
// once, or sent as the breaker's trial.
func (n *node) decide(ctx context.Context, key string, r *store.Request, others []member) (outcome, error) {
	c := n.calls.get(key, r)
	c.others, c.since = others, time.Now()
	if n.breaker.Open() {
		report, err := n.breaker.Enter()
		if err != nil {
			n.keep(c, err, true)
			n.calls.put(c)
			return outcome{}, err
		}
		c.trial = true
		go n.trial(c, report)
		return n.await(ctx, c)
	}
	n.mu.Lock()
	first := len(n.queue) == 0 && n.admits(c.since) && n.connected()
	if first {
		n.sends(c.since)
	} else {
		n.queue = append(n.queue, c)
		n.wake(c.since)
	}
	n.mu.Unlock()
	switch {
	case first && n.inline(ctx, c):
		n.sendAlone(c)
	case first:
		go n.sendAlone(c)
	}
	return n.await(ctx, c)
}

// inline reports whether c's caller may send it itself, which saves a switch of
// goroutines. Then it may return up to the timeout after its context is
// canceled, but never after its deadline. While this process is late, another
// goroutine waits longer: see batches.await.
func (n *node) inline(ctx context.Context, c *call) bool {
	if !n.endsWithContext && ctx.Done() != nil || n.late.Load() {
		return false
	}
	deadline, some := ctx.Deadline()
	return !some || deadline.After(c.since.Add(n.timeout+n.timeout/contextSlack))
}

// sendAlone sends c as a batch of its own.
func (n *node) sendAlone(c *call) {
	defer func() { // deferred, because a hook of the client may end the goroutine
		if next := n.ended(); next != nil {
			go n.work(next)
		}
	}()
	n.send(c.single())
}

// await returns the outcome of c, or the error of ctx if that ends first.
func (n *node) await(ctx context.Context, c *call) (outcome, error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done: // both
		default:
			return outcome{}, n.leave(ctx, c)
		}
	}
	o := c.outcome
	n.calls.put(c)
	if o.err != nil && ctx.Err() != nil {
		o.err = ctx.Err()
	}
	return o, o.err
}

// leave returns the error of ctx, which has ended before c. If c is still queued
// it is abandoned, unless it returns tokens. If c was sent, and reserves or holds
// tokens, all that it took comes back.
func (n *node) leave(ctx context.Context, c *call) error {
	if !c.request.Gives() && !c.state.CompareAndSwap(waiting, abandoned) {
		if taken := c.holders(); taken != nil {
			go n.undo(c, taken)
		}
	}
	return ctx.Err()
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

// work sends a batch, and then those that are queued meanwhile.
func (n *node) work(batch []*call) {
	for batch != nil {
		n.send(batch)
		runtime.Gosched() // callers that ask again at once are in the next batch
		batch = n.ended()
	}
}

// admits reports whether another batch may be sent now. n.mu is held here, and
// in the functions up to expire.
func (n *node) admits(now time.Time) bool {
	most := few
	if len(n.queue) >= large {
		most = 2 * few
	}
	return n.inFlight < min(most, n.most) || n.inFlight < n.most && now.Sub(n.lastSent) >= gap
}

// connected reports whether there is a connection for another batch.
func (n *node) connected() bool {
	if n.inFlight >= n.ready && n.silent.IsZero() && n.hasIdle() {
		n.ready = n.inFlight + 1
	}
	return n.inFlight < n.ready
}

// hasIdle reports whether the client has an idle connection to n's server, and
// not only one that a batch in flight is about to take. If n is for any of
// several servers, it can't tell.
func (n *node) hasIdle() bool {
	if n.only == nil {
		return false
	}
	stats := n.only.PoolStats()
	return stats.IdleConns > 0 && int(stats.TotalConns) > n.inFlight
}

// sends counts a batch.
func (n *node) sends(now time.Time) {
	n.inFlight++
	n.lastSent = now
}

// wake has a goroutine send what is queued: at once, after the gap, or when it
// has connections. It does nothing if a batch in flight will send the queue when
// it ends: if most are in flight, or few are, there is no connection for another,
// and less than a full batch waits.
func (n *node) wake(now time.Time) {
	if n.waking || len(n.queue) == 0 || n.inFlight >= n.most {
		return
	}
	connected := n.connected()
	if !connected && n.inFlight >= few && len(n.queue) < maxBatch {
		return
	}
	n.waking = true
	switch {
	case !n.admits(now):
		time.AfterFunc(gap-now.Sub(n.lastSent), n.woken)
	case connected:
		go n.woken()
	case !n.silent.IsZero():
		go n.connect(1)
	default:
		go n.connect(max(1, min(len(n.queue), few-n.inFlight, n.most-n.inFlight)))
	}
}

// woken sends what is queued.
func (n *node) woken() {
	n.mu.Lock()
	n.waking = false
	batch := n.next(time.Now())
	n.mu.Unlock()
	n.work(batch)
}

// next returns the batch to send now; nil: there is none.
func (n *node) next(now time.Time) (batch []*call) {
	limit := longestWait * n.timeout
	if !n.silent.IsZero() && now.Sub(n.silent) > n.timeout {
		limit = n.timeout
	}
	n.expire(now.Add(-limit), limit)
	if len(n.queue) == 0 || !n.admits(now) || !n.connected() {
		n.wake(now)
		return nil
	}
	n.sends(now)
	k := batchOf(n.queue)
	batch, n.queue = n.queue[:k:k], n.queue[k:]
	if len(n.queue) == 0 {
		n.queue = make([]*call, 0, k) // the batch keeps the array
	}
	n.wake(now)
	return batch
}

// expire fails the calls that were queued before an instant, the limit ago. It
// reports when the last of them came.
func (n *node) expire(before time.Time, limit time.Duration) (last time.Time) {
	for len(n.queue) > 0 && !n.queue[0].since.After(before) {
		if c := n.queue[0]; c.state.CompareAndSwap(waiting, abandoned) {
			last = c.since
			err := n.noConnection(limit)
			if n.inFlight > 0 {
				err = fmt.Errorf("waited for others to be sent: %w", timeoutError(limit))
			}
			n.refuse(c, err)
		}
		n.queue = n.queue[1:]
	}
	return last
}

// ended ends a batch, and returns the next one.
func (n *node) ended() []*call {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inFlight--; len(n.queue) == 0 {
		return nil
	}
	return n.next(time.Now())
}

// connect makes more connections ready, and then sends what is queued. Opening
// one takes several round trips, so it may take longer than a decision: calls
// fail after the timeout meanwhile, and later ones find the connection. It opens
// a few at once: while batches end, go-redis may give a new connection to the
// next of them, which then waits, and connect one that is ready.
func (n *node) connect(more int) {
	began, results := time.Now(), make(chan error, more)
	for range more {
		go func() { results <- n.reach() }()
	}
	ticker := time.NewTicker(n.timeout / silence)
	defer ticker.Stop()
	for more > 0 {
		select {
		case <-ticker.C:
			before := time.Now().Add(-n.timeout)
			pollNetwork()
			if len(results) > 0 { // this process was late
				continue
			}
			n.mu.Lock()
			var last time.Time
			if n.inFlight == 0 || !n.silent.IsZero() && n.silent.Before(before) {
				last = n.expire(before, n.timeout)
			}
			err := n.noConnection(n.timeout)
			n.mu.Unlock()
			if !last.IsZero() {
				n.breaker.Fail(last, err)
			}
		case err := <-results:
			if lost(err) {
				n.breaker.Fail(began, err)
			}
			n.mu.Lock()
			if !lost(err) {
				n.ready++
			} else if n.inFlight == 0 { // later calls have another attempt
				n.expire(began, time.Since(began))
			}
			more--
			n.waking = more > 0
			batch := n.next(time.Now())
			n.mu.Unlock()
			go n.work(batch)
		}
	}
}

// reach waits until there is a connection to n's server, and notes whether there
// is.
func (n *node) reach() error {
	err := n.batches.reach(n.only)
	n.mu.Lock()
	defer n.mu.Unlock()
	if lost(err) {
		n.why = err
		n.rediscover(context.Background(), err) // another server may have the keys by now
		return &unconnected{address: n.address, cause: err}
	}
	n.nodes.reached(n)
	n.why, n.silent = nil, time.Time{}
	return err
}

// trial sends what is kept, and then c, which the breaker has admitted as its
// trial, as soon as there is a connection. c fails after the timeout, and trial
// waits on for the connection.
func (n *node) trial(c *call, report func(error)) {
	timer := time.AfterFunc(n.timeout, func() {
		if c.state.CompareAndSwap(waiting, abandoned) {
			n.mu.Lock()
			err := n.noConnection(n.timeout)
			n.mu.Unlock()
			n.refuse(c, err)
		}
	})
	err := n.reach()
	timer.Stop()
	if !lost(err) {
		err = n.breaker.SendKept()
	}
	switch alone := claim(c.single()); {
	case len(alone) == 0 && err == nil: // its caller has left
		report(outage.CallerDone{Cause: context.Canceled})
	case len(alone) == 0:
		report(err)
	case err != nil:
		n.keep(c, err, true)
		report(err)
		c.fail(err)
	default:
		n.exchange(alone, report)
	}
}

// sendKept is the Send of n's breaker.
func (n *node) sendKept(list []outage.Returned) error {
	calls := make([]*call, len(list))
	for i, r := range list {
		calls[i] = n.calls.get(r.Key, &r.Request)
	}
	for len(calls) > 0 {
		k := batchOf(calls)
		var err error
		n.exchange(calls[:k], func(result error) { err = result })
		if calls = calls[k:]; err != nil {
			for _, c := range calls {
				n.keep(c, err, true)
			}
			return err
		}
	}
	return nil
}

// send sends a batch, if the breaker admits it.
func (n *node) send(batch []*call) {
	calls := claim(batch)
	if len(calls) == 0 { // all were abandoned
		return
	}
	report, err := n.breaker.Enter()
	if err != nil {
		for _, c := range calls {
			n.refuse(c, err)
		}
		return
	}
	n.exchange(calls, report)
}

// exchange sends calls, gives report the error if the server has decided none,
// and answers the calls.
func (n *node) exchange(calls []*call, report func(error)) {
	err := n.sendCalls(calls)
	n.note(err)
	if n.nodes.several() {
		if calls = n.resend(calls); ofHashSlot(err) {
			err = nil // the server works: only the hash slot is elsewhere
		}
	}
	n.answer(calls, func() { report(err) })
}

// sendCalls sends calls, and sets their outcomes. It returns the error if the
// server has decided none.
func (n *node) sendCalls(calls []*call) error {
	began := time.Now()
	err := n.batches.send(calls)
	if lost(err) && time.Since(began) >= n.timeout { // go-redis reports a timeout as one of several errors
		err = fmt.Errorf("%w: %w", n.timedOut(), err)
		for _, c := range calls {
			if lost(c.outcome.err) {
				c.outcome.err = err
			}
		}
	}
	return err
}

// resend sends calls of a batch again, each alone, whose hash slot the server
// has refused: others must not wait for them. It returns the rest.
func (n *node) resend(calls []*call) []*call {
	kept := calls[:0]
	for _, c := range calls {
		if len(calls) > 1 && c.outcome.err != nil && ofHashSlot(c.outcome.err) {
			go func() {
				_ = n.sendCalls(c.single()) // most likely to another server, so it says nothing about this one
				n.answer(c.single(), func() {})
			}()
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// answer answers calls. Before it wakes their callers, it keeps what should be
// sent later of calls that failed, and then reports: the next trial must find
// what this one has not sent.
func (n *node) answer(calls []*call, report func()) {
	for _, c := range calls {
		n.keep(c, c.outcome.err, false)
	}
	report()
	for _, c := range calls {
		c.finish()
	}
}

// note learns from the error of a batch.
func (n *node) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if lost(err) {
		n.ready = 0
		if n.silent.IsZero() {
			n.silent = time.Now()
		}
		return
	}
	n.silent = time.Time{}
	n.ready = max(n.ready, 1)
	n.why = nil
}

// keep keeps, of a call that failed with err or was not sent, what should be
// sent when the server is back. It does not read the requests' own keys, whose
// memory their caller may have reused.
func (n *node) keep(c *call, err error, unsent bool) {
	if err == nil || errors.Is(err, redis.ErrClosed) { // no server of this client will ever be back
		return
	}
	unsent = unsent || errors.Is(err, core.ErrBreakerOpen) || notExecuted(err) || wroteNothing(err)
	for m := range c.members() {
		if later, some := outage.Later(m.request, err, unsent); some {
			n.breaker.Keep(outage.Returned{Key: m.key, Request: later})
		}
	}
}

// refuse answers a call that was not sent.
func (n *node) refuse(c *call, err error) {
	n.keep(c, err, true)
	c.fail(err)
}

// noConnection returns the error of a call that waited so long for a connection.
// n.mu is held.
func (n *node) noConnection(after time.Duration) error {
	return &unconnected{address: n.address, after: after, cause: n.why}
}

// timedOut returns the error of a call that was sent and got no answer in time.
// It names a connection that could not be made, if that may be why.
func (n *node) timedOut() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.why != nil {
		return n.noConnection(n.timeout)
	}
	return timeoutError(n.timeout)
}

// unused reports whether n has sent nothing for a while, and nothing waits.
func (n *node) unused(while time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.queue) == 0 && n.inFlight == 0 && !n.waking && time.Since(n.lastSent) > while && !n.breaker.Open()
}
