package core

import (
	"context"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Release gives back the slots that the decision took of limits in flight, when the work is over. The tokens of other limits stay
// taken. Release does nothing if there are no slots to give back: the request was denied, Release was called before, or MaxHold is
// over. It never takes a slot from another request.
//
// Middleware releases by itself. Without it, defer Release where you have checked Allowed. ctx may have ended already. Release
// costs one round trip to Redis. If the store does not answer, it returns [ErrUnavailable]. Don't call it again: a store with a circuit
// breaker, such as that on Redis, releases the slots when it is back, and otherwise they come back after MaxHold. [ErrNoDecision] means
// that no limiter returned this Result.
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
	return r.limiter.release(context.WithoutCancel(ctx), now, r.releasePlan(now), r.Source, r.key, []bucket.Ending{r.held.ending()})
}

// releasePlan returns the plan by which r's slots are released. All of the policy is fastest, because it is what is stored. But another
// definition of its other limits must not be written, and no estimate must end.
func (r *Result) releasePlan(now *rules) *bucket.Plan {
	if p := r.plan.Plan; now.refundPlan(r.key, r.Source) == p && !r.plan.estimates {
		return p
	}
	return r.plan.slots
}

// Hold says that the work goes on: the decision holds its slots, and its estimates that are not settled yet, for another MaxHold
// from now. Call it well before MaxHold is over. Middleware calls it for slots as long as a response takes.
//
// If a hold has ended already, Hold takes the slots again if they are free. Otherwise it returns [ErrExpired]: others have them, and
// the work should stop. [ErrSettled] means that nothing is left to hold. ctx may have ended already. Hold costs one round trip to
// Redis. If the store does not answer, it returns [ErrUnavailable], and can be called again.
//
// In a handler, Hold also says that the work outlasts the response, as on a hijacked connection: from then on the middleware
// leaves the slots to you. Call Hold again well within each MaxHold, and Release in the end.
func (r *Result) Hold(ctx context.Context) error {
	if r.limiter == nil {
		return ErrNoDecision
	}
	if r.held != nil {
		r.held.kept.Store(true)
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
	p := r.plan.Of(func(rate *bucket.Rate) bool {
		return rate.Hold > 0 && (rate.Slots && !h.released || !rate.Slots && !h.settled) && h.tokens(r.plan, r.plan.IndexOf(rate.Tag)) > 0
	})
	if p == nil {
		return ErrSettled
	}
	each := make([]int64, len(p.Rates))
	for i := range each {
		each[i] = h.tokens(r.plan, r.plan.IndexOf(p.Rates[i].Tag))
	}
	l, now := r.limiter, r.limiter.current()
	hold := bucket.Request{Plan: p, Action: bucket.Acquire, Each: &each, Ticket: h.ticket, Ends: bucket.Ending{Ticket: h.ticket, At: h.began}}
	a, err := l.storeOf(r.Source).Do(context.WithoutCancel(ctx), now.planOf(r.key).class.Request(now.storedKey(r.key), hold))
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

// releaseSoon is Release for middleware, whose response must not wait for a store: it returns at once. The release is sent once. If
// the app has called Hold, nothing is released.
func (r *Result) releaseSoon() {
	if !r.hasSlots() || r.held.kept.Load() {
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

// startRelease begins to release r's slots. It unlocks r.held.mu, which is held.
func (r *Result) startRelease() {
	defer r.held.mu.Unlock()
	if r.held.released {
		return
	}
	r.held.released = true
	r.held.inUse.lose(true)
	l, source, key := r.limiter, r.Source, strings.Clone(r.key) // which may be reused when the response is over
	now := l.current()
	p := r.releasePlan(now)
	l.releases.calls.Add(releasesOf{r.plan.slots, key}, r.held.ending(), func(holds []bucket.Ending) error {
		_ = l.release(context.Background(), now, p, source, key, holds)
		return nil // it is not sent again: a store that was away does that itself, or MaxHold ends them
	})
}
