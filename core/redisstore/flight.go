package redisstore

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/eviction"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// flights carry decisions to Redis: those that are asked at the same time together.
type flights struct {
	server  *server
	prefix  string // of keys
	timeout time.Duration
	breaker *breaker.Breaker
	denials *denyCache // that what is sent may end
	queue   queue
	calls   callPool
	traffic traffic

	eviction eviction.Watch
}

// traffic counts what was sent.
type traffic struct {
	calls, decisions atomic.Int64
	batches          [storestats.BatchSizes]atomic.Int64
}

// count counts a call for n decisions, from 1 to maxBatch.
func (t *traffic) count(n int) {
	t.calls.Add(1)
	t.decisions.Add(int64(n))
	t.batches[min(bits.Len(uint(n-1)), storestats.BatchSizes-1)].Add(1)
}

// ask has r decided by Redis, together with what others ask at this moment.
func (f *flights) ask(ctx context.Context, r core.Request) (core.Answer, error) {
	o, err := f.board(ctx, r, nil)
	if err != nil {
		return core.Answer{}, fmt.Errorf("policy %q: %w", r.Policy(), err)
	}
	f.eviction.Look(f.server)
	return o.answer, nil
}

// askTogether has requests decided by Redis in one step.
func (f *flights) askTogether(ctx context.Context, requests []core.Request) ([]core.Answer, error) {
	var others []member
	for _, r := range requests[1:] {
		others = append(others, member{key: redisKey(f.prefix, r.Policy(), r.Key()), request: r})
	}
	o, err := f.board(ctx, requests[0], others)
	if err != nil {
		return nil, err
	}
	f.eviction.Look(f.server)
	return append([]core.Answer{o.answer}, o.others...), nil
}

// board puts r on the next flight, with others that are decided together with it, and waits for its outcome.
func (f *flights) board(ctx context.Context, r core.Request, others []member) (outcome, error) {
	key := redisKey(f.prefix, r.Policy(), r.Key())
	if f.breaker.Open() {
		// The breaker knows whether it is still open. A call that it admits is a trial and is sent alone.
		report, err := f.breaker.Enter()
		if err != nil {
			return outcome{}, err
		}
		c := f.calls.get(key, r)
		c.others, c.kept = others, true
		go f.trial(c, report)
		return f.await(ctx, c)
	}
	c := f.calls.get(key, r)
	c.others = others
	next := f.queue.add(c)
	if client := f.clientFor(ctx, c, next); client != nil {
		return f.flyAlone(ctx, c, client)
	}
	if !next.idle() {
		go f.depart(next, nil)
	}
	return f.await(ctx, c)
}

// flyAlone sends c in its caller's own goroutine, by a client that returns in time. That spares a change of goroutines,
// which is what a lone decision costs most. A caller who is cancelled meanwhile returns late, by at most the timeout.
func (f *flights) flyAlone(ctx context.Context, c *call, client redis.UniversalClient) (outcome, error) {
	defer func() { // also if a hook ends the goroutine
		if next := f.queue.landed(); !next.idle() {
			go f.depart(next, nil)
		}
	}()
	c.own = true
	f.fly(c.alone(), nil, client)
	o := c.outcome
	f.calls.put(c)
	if o.err != nil && ctx.Err() != nil {
		o.err = ctx.Err()
	}
	return o, o.err
}

// await returns the answer to c, or the error of ctx if that ends first. A call that was not sent is not sent then, unless
// it returns tokens: those come back whether or not anybody waits.
func (f *flights) await(ctx context.Context, c *call) (outcome, error) {
	select {
	case <-c.done:
		o := c.outcome
		f.calls.put(c)
		return o, o.err
	case <-ctx.Done():
		if c.request.Gives() || c.state.CompareAndSwap(waiting, left) {
			return outcome{}, ctx.Err()
		}
		if r := &c.request; r.Action == bucket.Reserve || r.Action == bucket.Await {
			go f.forget(c, of(r).clone()) // the key may be reused when the caller has its error
		}
		return outcome{}, ctx.Err()
	}
}

// forget cancels the reservation that c brings when it has landed: its caller has left and knows nothing of it.
func (f *flights) forget(c *call, b bucketOf) {
	<-c.done
	r, a := &c.request, &c.outcome.answer
	if c.outcome.err != nil || !a.Allowed || r.N == 0 {
		return
	}
	_, _ = f.ask(context.Background(), core.NewRequest(b.policy, b.key, bucket.Request{
		Plan: r.Plan, Action: bucket.End, Ends: bucket.Ending{Ticket: r.Ticket, At: a.Due, Back: r.N},
	}))
}

// clientFor returns a client that c's caller may wait for, if c departs alone: one that returns in time for the timeout
// and for the caller's own deadline. If there is none it returns nil.
func (f *flights) clientFor(ctx context.Context, c *call, next departure) redis.UniversalClient {
	if len(next.batch) != 1 || next.batch[0] != c {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.deadline(f.timeout).Add(f.timeout/shares)) {
		return nil
	}
	return f.server.timely.Get()
}

// depart does what a departure says, and then sends what has come meanwhile, until nobody waits. report is the
// breaker's for the first flight; if it is nil the breaker is asked.
func (f *flights) depart(next departure, report func(error)) {
	for !next.idle() {
		switch {
		case next.connect > 0:
			began := time.Now()
			err := f.server.connect()
			if lost(err) {
				f.breaker.Fail(began, err)
			}
			next = f.queue.beginConnected(next.connect, err)
		case next.after > 0:
			time.Sleep(next.after)
			next = f.queue.waited()
		case !f.fly(next.batch, report, nil):
			return // the flight was given up, and another goroutine goes on
		default:
			// Callers that have their answers may ask again: what they ask goes with the next flight, if they run first.
			runtime.Gosched()
			next, report = f.queue.landed(), nil
		}
	}
}

// trial sends c to learn whether Redis is back, as soon as there is a connection. c's caller waits no longer for that
// than for anything else. If it leaves, the next call that the breaker admits is the trial.
func (f *flights) trial(c *call, report func(error)) {
	c.since = time.Now()
	if nth := f.queue.connectFirst(); nth > 0 {
		impatient := time.AfterFunc(f.timeout, func() { f.dismiss([]*call{c}) })
		err := f.server.connect()
		f.queue.connected(nth, err)
		impatient.Stop()
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
	f.depart(f.queue.alone(c), report)
}

// expire answers the calls that have waited in the queue for the store's timeout. That is a failure of Redis only where
// they waited for a connection.
func (f *flights) expire() {
	late, stranded := f.queue.overdue()
	late = claim(late, left)
	if len(late) == 0 {
		return
	}
	err := timeoutError(f.timeout)
	if stranded {
		f.breaker.Fail(late[0].since, fmt.Errorf("no connection: %w", err))
	}
	finish(late, nil, err)
}

// dismiss answers those of calls that were not sent, and will not be.
func (f *flights) dismiss(calls []*call) {
	if len(calls) > 0 {
		finish(claim(calls, left), nil, fmt.Errorf("waited for too long to be sent: %w", timeoutError(f.timeout)))
	}
}

// fly sends one batch, if the breaker admits it, by a client that returns in time. Without one, nil, the flight is guarded
// and may be given up; fly returns false then.
func (f *flights) fly(batch []*call, report func(error), client redis.UniversalClient) (landed bool) {
	now := time.Now()
	// Calls that would be answered too late are not sent, or a long queue would hold nothing else. The oldest come
	// first.
	back := now.Add(min(f.queue.lately(), f.timeout/2))
	late := 0
	for late < len(batch) && !back.Before(batch[late].deadline(f.timeout)) {
		late++
	}
	f.dismiss(batch[:late:late])
	calls := claim(batch[late:], sent)
	if len(calls) == 0 { // all have left
		if report != nil {
			report(breaker.CallerLeft{Cause: context.Canceled}) // the breaker must hear of a trial, whatever became of it
		}
		return true
	}
	if report == nil {
		var err error
		if report, err = f.breaker.Enter(); err != nil {
			finish(calls, nil, err)
			return true
		}
	}
	// Only the time from now on is Redis'. What the callers waited in the queue is not.
	if client == nil {
		return f.flyGuarded(calls, now, report)
	}
	outcomes, err := f.exchange(f.server.within(1, now), client, calls)
	if err != nil && time.Since(now) >= f.timeout { // in the words of go-redis it is one of several errors
		err = fmt.Errorf("%w: %w", timeoutError(f.timeout), err)
	}
	f.queue.note(time.Since(now), err)
	report(err)
	finish(calls, outcomes, err)
	return true
}

// exchange sends calls by client, and keeps the deny cache true to what they do.
func (f *flights) exchange(ctx context.Context, client redis.UniversalClient, calls []*call) ([]outcome, error) {
	f.traffic.count(len(calls))
	f.denials.depart(calls)
	outcomes, err := f.server.send(ctx, client, calls)
	f.denials.arrive(calls, outcomes, err)
	return outcomes, err
}

// flyGuarded sends calls and answers each of them, at the latest when its caller has waited for the store's timeout. If
// the flight itself takes that long it is given up, so that those who wait for the next are not late too.
func (f *flights) flyGuarded(calls []*call, began time.Time, report func(error)) (landed bool) {
	w := &watched{calls: calls, end: began.Add(f.timeout)}
	w.mu.Lock() // until the timer is set, which its function resets
	w.timer = time.AfterFunc(time.Until(calls[0].deadline(f.timeout)), func() {
		keepUp()
		late, givenUp := w.overdue(f.timeout)
		err := timeoutError(f.timeout)
		if givenUp {
			f.queue.note(f.timeout, err)
			report(err)
		}
		finish(late, nil, err)
		if givenUp {
			f.depart(f.queue.landed(), nil)
		}
	})
	w.mu.Unlock()
	// Twice the timeout: an answer that has come in time may be read late. See keepUp.
	outcomes, err := f.exchange(f.server.within(2, began), f.server.client, calls)
	rest, givenUp := w.land()
	if !givenUp {
		f.queue.note(time.Since(began), err)
		report(err)
	}
	if outcomes != nil {
		outcomes = outcomes[len(calls)-len(rest):]
	}
	for _, c := range rest {
		c.landed = true
	}
	finish(rest, outcomes, err)
	return !givenUp
}
