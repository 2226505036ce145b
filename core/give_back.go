package core

import (
	"context"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Refund returns tokens to the limits of key that count requests, for work that turned out cheaper or was not done. No
// limit gets more than its capacity, less the tokens that are reserved or on lease. Refunding more than was taken admits
// more than the policy says.
//
// Refund returns [ErrCost] for a negative number of tokens, [ErrNoKey] for an empty key, and ctx's own error if ctx has
// ended. If the store can't answer, it returns [ErrUnavailable] whatever the policy's OnFailure, and no tokens come
// back. It costs one round trip to Redis.
func (l *Limiter) Refund(ctx context.Context, key string, tokens int64) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if tokens < 0 {
		return fmt.Errorf("%w: refund of %d tokens", ErrCost, tokens)
	}
	if tokens == 0 {
		return nil
	}
	now := l.rules.Load()
	return l.returnTo(ctx, now, key, FromStore, bucket.Request{Plan: now.planOf(key).Plan, Action: bucket.Refund, N: tokens})
}

// Undo returns the tokens that the decision res took from key. They go to where they came from: the store, or the
// fallback of FailLocal. Undo does nothing if res took nothing. For the result of a reservation it is
// [Reservation.Cancel]. Errors and cost are those of Refund, and [ErrOtherKey] if res is a decision on another key.
//
// Call Undo at most once for a decision, and not for one that was settled. A Result can't know: a second call returns the
// tokens a second time, and then more are admitted than the policy says.
func (l *Limiter) Undo(ctx context.Context, key string, res Result) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.rules.Load()
	if err := res.check(now, key); err != nil {
		return err
	}
	return l.undo(ctx, now, key, &res)
}

// check returns ErrOtherKey if r is a decision on a key other than this one of the policy of now.
func (r *Result) check(now *rules, key string) error {
	if r.bucket != 0 && r.bucket != now.plan.class.hashOf(boundedKey(key)) {
		return fmt.Errorf("%w: it is no decision of policy %q on this key", ErrOtherKey, now.policy.Name)
	}
	return nil
}

// undo is Undo under the rules of now.
func (l *Limiter) undo(ctx context.Context, now *rules, key string, res *Result) error {
	switch {
	case !res.taken():
		return nil
	case res.ticket != 0:
		return l.endHold(ctx, now, key, res, res.Cost)
	case res.each == nil && res.Cost == 0:
		return nil
	}
	p := now.refundPlan(key, res.plan, res.Source)
	if res.each != nil || p != res.plan.Plan && p.Recounts(res.plan.Plan) { // each gets what it was charged
		back := make([]int64, len(res.plan.limits))
		for i := range back {
			back[i] = res.costOf(i)
		}
		return l.giveBack(ctx, now, key, res.Source, res.plan, back)
	}
	r := bucket.Request{Plan: p.Common(res.plan.Plan), Action: bucket.Refund, N: res.Cost}
	return l.returnTo(ctx, now, key, res.Source, r)
}

// endHold ends the hold of a reservation, whose result is res, and returns its n tokens.
func (l *Limiter) endHold(ctx context.Context, now *rules, key string, res *Result, n int64) error {
	return l.endHolds(ctx, now, key, res.plan, res.Source, []bucket.Ending{{Ticket: res.ticket, At: res.answer.Due, Back: n}})
}

// endHolds ends holds of reservations under p, of which there is at least one. source says which store they came from.
func (l *Limiter) endHolds(ctx context.Context, now *rules, key string, p *plan, source Source, holds []bucket.Ending) error {
	r := bucket.Request{Plan: now.refundPlan(key, p, source).Common(p.Plan), Action: bucket.End, Ends: holds[0]}
	if more := holds[1:]; len(more) > 0 {
		r.EndsToo = &more
	}
	return l.returnTo(ctx, now, key, source, r)
}

// giveBack returns tokens to key, so many to each limit of p; of a negative number it takes them. They go to the store that
// a decision came from: source says which.
func (l *Limiter) giveBack(ctx context.Context, now *rules, key string, source Source, p *plan, back []int64) error {
	r := bucket.Request{Action: bucket.Refund}
	r.Plan, r.Each = now.refundPlan(key, p, source).Refunding(p.Plan, back)
	return l.returnTo(ctx, now, key, source, r)
}

// refundPlan returns the plan of key by which tokens come back that were taken under p.
func (r *rules) refundPlan(key string, p *plan, source Source) *bucket.Plan {
	switch {
	case r.overrides[key] == nil && !p.ofKey: // the limits of a limiter that WithLimits returned stay
		return p.Successor(boundedKey(key))
	case source == FromFallback && r.localPlan != nil:
		return r.localPlanOf(key).Plan
	}
	return r.planOf(key).Plan
}

// returnTo sends r, which returns tokens to key, to the store that the tokens came from: source says which.
func (l *Limiter) returnTo(ctx context.Context, now *rules, key string, source Source, r bucket.Request) error {
	if err := ctx.Err(); err != nil {
		return gone{err}
	}
	if r.Plan == nil { // SetPolicy has removed all limits that the tokens came from, or there is nothing to return
		return nil
	}
	store := l.store
	if source == FromFallback {
		store = l.fallback()
	}
	_, err := store.Do(ctx, Request{Request: r, class: now.planOf(key).class, key: boundedKey(key)})
	return l.failed(ctx, key, err)
}

// Reset makes key's bucket full again: the store forgets it. Reservations stay valid. Errors and cost are those of
// Refund.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.rules.Load()
	stored := boundedKey(key)
	if now.localPlan != nil {
		if err := l.fallback().Reset(ctx, now.policy.Name, stored); err != nil {
			return err
		}
	}
	return l.failed(ctx, key, l.store.Reset(ctx, now.policy.Name, stored))
}
