package core

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// held is what a decision holds: its slots, and its estimates of limits with a MaxHold. All copies of a Result share it.
type held struct {
	ticket int64 // of the holds
	cost   int64 // Result.Cost and Result.each of the decision; of several charges of one bucket, their sum
	each   *[]int64

	mu       sync.Mutex // guards all below; held while something is sent, so that one call follows another
	began    int64      // when the holds began, in µs since 1970 on the store's clock; 0: not known
	released bool       // the slots were, or are about to be
	settled  bool       // the estimates were, or are about to be

	inUse *inUse // set before the decision is returned
}

// newTicket returns a ticket that no other hold has.
func newTicket() int64 {
	return bucket.FirstReturning + rand.Int64N(1<<53-bucket.FirstReturning)
}

// newHeld returns what r holds by a ticket; nil if nothing.
func newHeld(r *Result, ticket int64) *held {
	h := &held{ticket: ticket, cost: r.Cost, each: r.each, began: r.answer.Now}
	for i := range r.plan.Rates {
		if r.plan.Rates[i].Hold > 0 && h.tokens(r.plan, i) > 0 {
			return h
		}
	}
	return nil
}

// tokens is what h holds, if the i-th limit of p holds anything.
func (h *held) tokens(p *plan, i int) int64 { return p.CostOf(i, h.cost, h.each) }

// ending is what ends h, and puts back all that it holds. h.mu is held.
func (h *held) ending() bucket.Ending {
	return bucket.Ending{Ticket: h.ticket, At: h.began, Back: bucket.MaxHeld}
}

// Release gives back the slots that the decision took of limits in flight, when the work is over. The tokens of other limits stay
// taken. Release does nothing if there are no slots to give back: the request was denied, Release was called before, or MaxHold is
// over. It never takes a slot from another request.
//
// Middleware releases by itself. Without it, defer Release where you have checked Allowed. ctx may have ended already. Release
// costs one round trip to Redis and is sent at most once. If the store does not answer, it returns [ErrUnavailable], and the slots
// come back after MaxHold. [ErrNoDecision] means that no limiter returned this Result.
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
	return r.limiter.release(context.WithoutCancel(ctx), r.plan.slots, r.Source, r.key, []bucket.Ending{r.held.ending()})
}

// hasSlots reports whether r took slots.
func (r *Result) hasSlots() bool { return r.maxHold() > 0 }

// hasEstimates reports whether r took estimates that come back after MaxHold.
func (r *Result) hasEstimates() bool {
	return r.held != nil && r.taken() && slices.ContainsFunc(r.plan.Rates, func(rate bucket.Rate) bool { return rate.Hold > 0 && !rate.Slots })
}

// maxHold returns the shortest MaxHold of r's slots; 0 if it has none.
func (r *Result) maxHold() (shortest time.Duration) {
	if r.held == nil || !r.taken() || r.plan.slots == nil {
		return 0
	}
	for i := range r.plan.Rates {
		rate := &r.plan.Rates[i]
		if hold := duration(rate.Hold); rate.Slots && r.held.tokens(r.plan, i) > 0 && (shortest == 0 || hold < shortest) {
			shortest = hold
		}
	}
	return shortest
}

// slotsTaken returns how many slots r took, of all limits in flight, and for how long it holds them: until the longest MaxHold.
func (r *Result) slotsTaken() (n int64, hold time.Duration) {
	if !r.hasSlots() {
		return 0, 0
	}
	for i := range r.plan.Rates {
		if rate := &r.plan.Rates[i]; rate.Slots {
			n, hold = n+r.costOf(i), max(hold, duration(rate.Hold))
		}
	}
	return n, hold
}

// release ends holds of slots of p, of which there is at least one. source says which store has them.
func (l *Limiter) release(ctx context.Context, p *bucket.Plan, source Source, key string, holds []bucket.Ending) error {
	r := bucket.Request{Plan: p, Action: bucket.End, Ends: holds[0]}
	if more := holds[1:]; len(more) > 0 {
		r.EndsToo = &more
	}
	err := l.returnTo(ctx, l.rules.Load(), key, source, r)
	l.waiters.wake(key)
	return err
}

// Hold says that the work goes on: the decision holds its slots, and its estimates that are not settled yet, for another MaxHold
// from now. Call it well before MaxHold is over. Middleware calls it for slots as long as a response takes.
//
// If a hold has ended already, Hold takes the slots again if they are free. Otherwise it returns [ErrExpired]: others have them, and
// the work should stop. [ErrSettled] means that nothing is left to hold. ctx may have ended already. Hold costs one round trip to
// Redis. If the store does not answer, it returns [ErrUnavailable], and can be called again.
func (r *Result) Hold(ctx context.Context) error {
	if r.limiter == nil {
		return ErrNoDecision
	}
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
	l, now := r.limiter, r.limiter.rules.Load()
	hold := bucket.Request{Plan: p, Action: bucket.Acquire, Each: &each, Ticket: h.ticket, Ends: bucket.Ending{Ticket: h.ticket, At: h.began}}
	a, err := l.storeOf(r.Source).Do(context.WithoutCancel(ctx), now.planOf(r.key).class.Request(boundedKey(r.key), hold))
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

// undoHeld gives back what r took, and ends what it holds. Slots are released even if the policy has them no longer: another
// process may still count them.
func (r *Result) undoHeld(ctx context.Context, now *rules) error {
	back := make([]int64, len(r.plan.limits))
	for i := range back {
		if r.plan.Rates[i].Hold == 0 {
			back[i] = r.costOf(i)
		}
	}
	p := now.refundPlan(r.key, r.plan, r.Source)
	if gone := r.plan.Of(func(rate *bucket.Rate) bool { return rate.Slots && p.IndexOf(rate.Tag) < 0 }); gone != nil {
		if p = p.Common(r.plan.Plan); p != nil {
			gone = bucket.NewPlan(slices.Concat(p.Rates, gone.Rates))
		}
		p = gone
	}
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	r.held.released, r.held.settled = true, true
	r.held.inUse.lose(true)
	err := r.limiter.giveBackAndEnd(ctx, now, r, p, back)
	r.limiter.waiters.wake(r.key)
	return err
}

// settleHeld is Settle of a decision that holds something. Estimates come back, and what was really taken is charged. So an estimate
// that has come back before is charged all the same.
func (r *Result) settleHeld(ctx context.Context, now *rules, units Units) error {
	back := make([]int64, len(r.plan.limits))
	for i, unit := range r.plan.units {
		actual, given := units[unit]
		if !given {
			actual = r.costOf(i)
		}
		if back[i] = r.costOf(i) - actual; r.plan.Rates[i].Hold > 0 {
			back[i] = -actual
		}
	}
	p := now.refundPlan(r.key, r.plan, r.Source)
	if r.plan.slots != nil { // they are released, and not settled
		p = p.Of(func(rate *bucket.Rate) bool { return !rate.Slots })
	}
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	r.held.settled = true
	return r.limiter.giveBackAndEnd(ctx, now, r, p, back)
}

// giveBackAndEnd returns tokens of r's decision to the limits of p that it took them from, so many to each of r's limits, and ends
// what the decision holds of these limits. r.held.mu is held.
func (l *Limiter) giveBackAndEnd(ctx context.Context, now *rules, r *Result, p *bucket.Plan, back []int64) error {
	if p == nil {
		return nil
	}
	each, _ := p.EachOf(r.plan.Plan, back)
	return l.returnTo(ctx, now, r.key, r.Source, bucket.Request{Plan: p, Action: bucket.Refund, Each: &each, Ends: r.held.ending()})
}
