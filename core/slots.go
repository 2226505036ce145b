package core

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
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
	if r.Parts != nil {
		return r.eachPart(func(part *Result) error { return part.Release(ctx) })
	}
	if r.limiter == nil {
		return ErrNoDecision
	}
	if !r.hasSlots() {
		return nil
	}
	r.held.mu.Lock()
	released := r.held.released
	r.held.mu.Unlock()
	if released {
		return nil
	}
	return r.charge(context.WithoutCancel(ctx), make([]int64, len(r.set.Rates)), func(*held) (slots, estimates bool) { return true, false })
}

// Keep prolongs the decision's slots until release, for work of unknown length:
// the store prolongs them by one goroutine for all, well before MaxHold is over.
// Middleware keeps the slots of a request until its response is over.
//
// release gives the slots back as Release does, but does not wait for the store,
// which releases them later if it was away. If the app has called [Result.Hold],
// release only ends Keep. It can be called more than once, from any goroutine.
// Of a Result of [AllowTogether] it keeps the slots of all parts. kept is false,
// and release does nothing, if the decision has no slots, or they are kept
// already.
func (r *Result) Keep() (release func(), kept bool) {
	if r.Parts != nil {
		return r.keepParts()
	}
	hold := r.maxHold()
	if hold == 0 || r.held.kept != nil {
		return func() {}, false
	}
	own := *r
	own.Key = strings.Clone(r.Key) // which may be reused when the response is over
	r.held.kept = r.limiter.watch.store.Limiters.Prolonged.Begin(hold, func() (again bool) {
		return !errors.Is(own.extend(context.Background()), ErrSettled)
	})
	return own.releaseSoon, true
}

// keepParts keeps the slots of all parts. Charges of one limiter and key are one
// decision, which is kept once.
func (r *Result) keepParts() (release func(), kept bool) {
	var releases []func()
	for i := range r.Parts {
		if release, kept := r.Parts[i].Keep(); kept {
			releases = append(releases, release)
		}
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}, len(releases) > 0
}

// releaseSoon ends Keep, and releases slots that the app does not hold.
func (r *Result) releaseSoon() {
	if !r.held.kept() || r.held.byApp.Load() {
		return
	}
	if r.limiter.memory != nil || r.Source == FromFallback { // these never wait
		_ = r.Release(context.Background())
		return
	}
	done := r.limiter.watch.store.Limiters.Releases.Begin(r.Policy(), r.Key)
	go func() {
		defer done()
		_ = r.Release(context.Background())
	}()
}

// Hold says that the work goes on: the decision holds its slots, and its
// estimates that are not settled yet, for another MaxHold from now. Call it
// well before MaxHold is over; [Result.Keep] does so by itself. Middleware
// prolongs slots as long as a response takes. In a handler, Hold also says that the work outlasts the
// response, as on a hijacked connection: from then on hold and release the
// slots yourself.
//
// If a hold has ended already, Hold takes the slots again if they are free.
// Otherwise it returns [ErrExpired]: others have them, and the work should
// stop. [ErrSettled] means that nothing is left to hold. ctx may have ended
// already. Hold costs one round trip to Redis. After [ErrUnavailable] it can be
// called again.
func (r *Result) Hold(ctx context.Context) error {
	if r.Parts != nil {
		return r.holdParts(ctx)
	}
	if r.limiter == nil {
		return ErrNoDecision
	}
	if r.held != nil {
		r.held.byApp.Store(true)
	}
	return r.extend(ctx)
}

// holdParts holds what the parts hold. ErrSettled means that none does.
func (r *Result) holdParts(ctx context.Context) error {
	settled := 0
	err := r.eachPart(func(part *Result) error {
		err := part.Hold(ctx)
		if errors.Is(err, ErrSettled) {
			settled++
			return nil
		}
		return err
	})
	if err == nil && settled == len(r.Parts) {
		return ErrSettled
	}
	return err
}

// extend is Hold without saying that the app releases the slots.
func (r *Result) extend(ctx context.Context) error {
	h := r.held
	if h == nil || !r.taken() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	each := r.endsOf(!h.released, !h.settled)
	if slices.Max(*each) == 0 {
		return ErrSettled
	}
	l := r.limiter
	extend := bucket.Request{Set: r.set.LimitSet, Action: bucket.Extend, Each: each, Ends: each, Ticket: h.ticket}
	a, err := l.storeOf(r.Source).Do(context.WithoutCancel(ctx), r.set.class.Request(store.Key(r.Key), extend))
	if err != nil {
		return l.failed(ctx, r.Key, err)
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
		if hold := duration(rate.Hold); rate.Slots && r.costOf(i) > 0 && (shortest == 0 || hold < shortest) {
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
	ticket uint64 // of the holds

	mu       sync.Mutex // guards all below; held while something is sent, so that one call follows another
	released bool       // the slots were, or are about to be
	settled  bool       // the estimates were, or are about to be

	kept  func() bool // ends what Keep has begun
	byApp atomic.Bool // the app has called Hold, and releases by itself

	inUse *inUse // set before the decision is returned
}

// newTicket returns a ticket that no other hold has.
func newTicket() uint64 { return rand.Uint64() }

// cancelTimeout is how long waits and decisions wait for cancels and releases.
const cancelTimeout = 50 * time.Millisecond

// waitForReleases waits until the releases of key's slots that are under way are
// over, so that a decision of this process comes after them. It waits for at
// most cancelTimeout, because a store may not answer.
func (l *Limiter) waitForReleases(ctx context.Context, policy, key string) error {
	over := l.watch.store.Limiters.Releases.Of(policy, key)
	if over == nil {
		return nil
	}
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	case <-ctx.Done():
		return callerDone{ctx.Err()}
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
