package core

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/gather"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

// Release gives back the slots that the decision took of limits in flight, when
// the work is over. The tokens of other limits stay taken. It does nothing if
// there are no slots to give back: the request was denied, Release was called
// before, or MaxHold is over.
//
// Middleware releases by itself. Without it, defer Release where you have
// checked Allowed. ctx may have ended already. It costs one round trip to
// Redis. If the store does not answer, it returns [ErrUnavailable]. Don't call
// it again: a store with a circuit breaker releases the slots when it is back,
// and otherwise MaxHold does. [ErrNoDecision] means that no limiter returned
// this Result.
func (r *Result) Release(ctx context.Context) error {
	if r.limiter == nil {
		return ErrNoDecision
	}
	if !r.hasSlots() {
		return nil
	}
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	if r.held.released {
		return nil
	}
	r.held.released = true
	r.held.inUse.lose(true)
	now := r.limiter.current()
	return r.limiter.release(context.WithoutCancel(ctx), now, r.releaseSet(now), r.Source, r.key, []bucket.Ending{r.held.ending()})
}

// releaseSet returns the limits by which r's slots are released. All of the
// policy is fastest, because it is what is stored. But another definition of
// its other limits must not be written, and no estimate must end.
func (r *Result) releaseSet(now *compiled) *bucket.LimitSet {
	if p := r.set.LimitSet; now.refundSet(r.key, r.Source) == p && !r.set.estimates {
		return p
	}
	return r.set.slots
}

// releaseSoon is Release for middleware, whose response must not wait for a
// store: it returns at once. Core does not repeat the release: a store that was
// away sends it later (see store.Later), or the slots end after MaxHold. If the
// app has called Hold, nothing is released.
func (r *Result) releaseSoon() {
	if !r.hasSlots() || r.held.byApp.Load() {
		return
	}
	if r.limiter.memory != nil || r.Source == FromFallback { // these never wait
		_ = r.Release(context.Background())
		return
	}
	if r.held.mu.TryLock() {
		r.startRelease()
		return
	}
	go func() { // a Hold is under way
		r.held.mu.Lock()
		r.startRelease()
	}()
}

// startRelease begins a release. It unlocks r.held.mu, which is held.
func (r *Result) startRelease() {
	defer r.held.mu.Unlock()
	if r.held.released {
		return
	}
	r.held.released = true
	r.held.inUse.lose(true)
	l, source, key := r.limiter, r.Source, strings.Clone(r.key) // which may be reused when the response is over
	now := l.current()
	p := r.releaseSet(now)
	l.releases.calls.Add(releasesOf{r.set.slots, key}, r.held.ending(), func(holds []bucket.Ending) error {
		_ = l.release(context.Background(), now, p, source, key, holds)
		return nil // it is not sent again: a store that was away does that itself, or MaxHold ends them
	})
}

// release ends holds of slots of p in the store of source.
func (l *Limiter) release(ctx context.Context, now *compiled, p *bucket.LimitSet, source Source, key string, holds []bucket.Ending) error {
	r := bucket.Request{Set: p, Action: bucket.End, Ends: holds[0]}
	if more := holds[1:]; len(more) > 0 {
		r.EndsToo = &more
	}
	err := l.returnOnce(ctx, now, key, source, r)
	l.waiters.wake(key)
	return err
}

// Hold says that the work goes on: the decision holds its slots, and its
// estimates that are not settled yet, for another MaxHold from now. Call it
// well before MaxHold is over. Middleware prolongs slots itself as long as a
// response takes. In a handler, Hold also says that the work outlasts the
// response, as on a hijacked connection: from then on hold and release the
// slots yourself.
//
// If a hold has ended already, Hold takes the slots again if they are free.
// Otherwise it returns [ErrExpired]: others have them, and the work should
// stop. [ErrSettled] means that nothing is left to hold. ctx may have ended
// already. Hold costs one round trip to Redis. After [ErrUnavailable] it can be
// called again.
func (r *Result) Hold(ctx context.Context) error {
	if r.limiter == nil {
		return ErrNoDecision
	}
	if r.held != nil {
		r.held.byApp.Store(true)
	}
	return r.extend(ctx)
}

// extend is Hold for middleware, which goes on to release the slots in the end.
func (r *Result) extend(ctx context.Context) error {
	h := r.held
	if h == nil || !r.taken() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := r.set.Of(func(rate *bucket.Rate) bool {
		return rate.Hold > 0 && (rate.Slots && !h.released || !rate.Slots && !h.settled) && h.tokens(r.set, r.set.IndexOf(rate.Tag)) > 0
	})
	if p == nil {
		return ErrSettled
	}
	each := make([]int64, len(p.Rates))
	for i := range each {
		each[i] = h.tokens(r.set, r.set.IndexOf(p.Rates[i].Tag))
	}
	l, now := r.limiter, r.limiter.current()
	hold := bucket.Request{Set: p, Action: bucket.Acquire, Each: &each, Ticket: h.ticket, Ends: bucket.Ending{Ticket: h.ticket, At: h.began}}
	a, err := l.storeOf(r.Source).Do(context.WithoutCancel(ctx), now.setOf(r.key).class.Request(now.storedKey(r.key), hold))
	if h.began = a.Now; err != nil {
		h.began = 0 // the store may have moved them, or not
		return l.failed(ctx, r.key, err)
	}
	if !a.Allowed {
		h.inUse.lose(false)
		return ErrExpired
	}
	_, held := r.slotsTaken()
	h.inUse.hold(held)
	return nil
}

// hasSlots reports whether r took slots.
func (r *Result) hasSlots() bool { return r.maxHold() > 0 }

// hasEstimates reports whether r took estimates that come back after MaxHold.
func (r *Result) hasEstimates() bool {
	return r.held != nil && r.taken() && slices.ContainsFunc(r.set.Rates, func(rate bucket.Rate) bool { return rate.Hold > 0 && !rate.Slots })
}

// maxHold returns the shortest MaxHold of r's slots; 0 if it has none.
func (r *Result) maxHold() (shortest time.Duration) {
	if r.held == nil || !r.taken() || r.set.slots == nil {
		return 0
	}
	for i := range r.set.Rates {
		rate := &r.set.Rates[i]
		if hold := duration(rate.Hold); rate.Slots && r.held.tokens(r.set, i) > 0 && (shortest == 0 || hold < shortest) {
			shortest = hold
		}
	}
	return shortest
}

// slotsTaken returns how many slots r took, and its longest MaxHold.
func (r *Result) slotsTaken() (n int64, hold time.Duration) {
	if !r.hasSlots() {
		return 0, 0
	}
	for i := range r.set.Rates {
		if rate := &r.set.Rates[i]; rate.Slots {
			n, hold = n+r.costOf(i), max(hold, duration(rate.Hold))
		}
	}
	return n, hold
}

// held is what a decision holds: its slots, and its estimates of limits with a
// MaxHold. All copies of a Result share it.
type held struct {
	ticket int64 // of the holds
	cost   int64 // Result.Cost and Result.each of the decision
	each   *[]int64

	mu       sync.Mutex // guards all below; held while something is sent, so that one call follows another
	began    int64      // when the holds began, in µs since 1970 on the store's clock; 0: not known
	released bool       // the slots were, or are about to be
	settled  bool       // the estimates were, or are about to be

	byApp atomic.Bool // the app has called Hold, and releases by itself

	inUse *inUse // set before the decision is returned
}

// newTicket returns a ticket that no other hold has.
func newTicket() int64 {
	return bucket.FirstReturning + rand.Int64N(1<<53-bucket.FirstReturning)
}

// newHeld returns what a decision under p holds, or nil.
func newHeld(p *limitSet, ticket, began, cost int64, each *[]int64) *held {
	h := &held{ticket: ticket, cost: cost, each: each, began: began}
	for i := range p.Rates {
		if p.Rates[i].Hold > 0 && h.tokens(p, i) > 0 {
			return h
		}
	}
	return nil
}

// tokens is what h holds, if the i-th limit of p holds anything.
func (h *held) tokens(p *limitSet, i int) int64 { return p.CostOf(i, h.cost, h.each) }

// ending is what ends h, and puts back all that it holds. h.mu is held.
func (h *held) ending() bucket.Ending {
	return bucket.Ending{Ticket: h.ticket, At: h.began, Back: bucket.MaxHeld}
}

// cancelTimeout is how long waits and decisions wait for cancels and releases.
const cancelTimeout = 50 * time.Millisecond

// releases are under way. Those of one key share calls.
type releases struct {
	calls gather.Calls[releasesOf, bucket.Ending]
}

// releasesOf is what releases have in common that share a call.
type releasesOf struct {
	slots *bucket.LimitSet
	key   string
}

// wait waits until the releases of key that are under way are done, so that a
// decision of this process comes after them. It waits for at most
// cancelTimeout, because a store may not answer.
func (r *releases) wait(ctx context.Context, slots *bucket.LimitSet, key string) error {
	done := r.calls.Pending(releasesOf{slots, key})
	if done == nil {
		return nil
	}
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return hook.Done(ctx.Err())
	}
	return nil
}

// inUse is what observers count of the slots of a decision, until they are
// released or MaxHold is over. They don't count those of a nil one.
type inUse struct {
	mu      sync.Mutex // guards all below; held while observers are called, so that they see changes in their order
	taken   int64      // slots of the decision; 0: they are released
	counted int64      // of these, what observers count
	end     time.Time  // when MaxHold is over
	timer   *time.Timer
	change  func(by int64) // calls the observers
}

// inUse returns what counts the slots of a decision on key.
func (w *watch) inUse(policy string, source Source, key string) *inUse {
	// The key may be a view of a buffer that its owner reuses.
	o := Observation{Policy: policy, Outcome: OutcomeSlots, Source: source, Key: strings.Clone(key)}
	return &inUse{change: func(by int64) {
		o.Slots = by
		w.call(context.Background(), o)
	}}
}

// take notes that observers count n more slots, which are held for so long.
func (u *inUse) take(n int64, hold time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken, u.counted = u.taken+n, u.counted+n
	u.extend(hold)
}

// hold notes that the slots, which may have been lost, are held from now.
func (u *inUse) hold(hold time.Duration) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken > 0 {
		u.count(u.taken)
		u.extend(hold)
	}
}

// lose notes that the slots are not in use, and for good if they were released.
func (u *inUse) lose(released bool) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken == 0 {
		return
	}
	u.timer.Stop()
	u.count(0)
	if released {
		u.taken = 0
	}
}

// extend has observers count the slots until hold is over. u.mu is held.
func (u *inUse) extend(hold time.Duration) {
	u.end = time.Now().Add(hold)
	if u.timer != nil {
		u.timer.Reset(hold)
		return
	}
	u.timer = time.AfterFunc(hold, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if !time.Now().Before(u.end) { // else a Hold has come in between
			u.count(0)
		}
	})
}

// count has observers count n slots. u.mu is held.
func (u *inUse) count(n int64) {
	if by := n - u.counted; by != 0 {
		u.counted = n
		u.change(by)
	}
}
