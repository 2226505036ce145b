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
	return l.returnTo(ctx, key, FromStore, bucket.Request{Plan: l.rules.Load().planOf(key).Plan, Action: bucket.Refund, N: tokens})
}

// Undo returns the tokens that the decision res took from key. They go to where they came from: the store, or the
// fallback of FailLocal. Undo does nothing if res took nothing. For the result of a reservation it is
// [Reservation.Cancel]. Errors and cost are those of Refund.
func (l *Limiter) Undo(ctx context.Context, key string, res Result) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if !res.taken() {
		return nil
	}
	switch {
	case res.ticket != 0:
		return l.endHold(ctx, key, &res, res.Cost)
	case res.each == nil && res.Cost == 0:
		return nil
	}
	p := l.refundPlan(key, res.plan, res.Source)
	if res.each != nil || p != res.plan.Plan && p.Recounts(res.plan.Plan) { // each gets what it was charged
		back := make([]int64, len(res.plan.limits))
		for i := range back {
			back[i] = res.costOf(i)
		}
		return l.giveBack(ctx, key, res.Source, res.plan, back)
	}
	r := bucket.Request{Plan: p.Common(res.plan.Plan), Action: bucket.Refund, N: res.Cost}
	return l.returnTo(ctx, key, res.Source, r)
}

// endHold ends the hold of a reservation, whose result is res, and returns its n tokens.
func (l *Limiter) endHold(ctx context.Context, key string, res *Result, n int64) error {
	return l.endHolds(ctx, key, res.plan, res.Source, []bucket.Ending{{Ticket: res.ticket, At: res.answer.Due, Back: n}})
}

// endHolds ends holds of reservations under p, of which there is at least one. source says which store they came from.
func (l *Limiter) endHolds(ctx context.Context, key string, p *plan, source Source, holds []bucket.Ending) error {
	r := bucket.Request{Plan: l.refundPlan(key, p, source).Common(p.Plan), Action: bucket.End, Ends: holds[0]}
	if more := holds[1:]; len(more) > 0 {
		r.EndsToo = &more
	}
	return l.returnTo(ctx, key, source, r)
}

// giveBack returns tokens to key, so many to each limit of p; of a negative number it takes them. They go to the store that
// a decision came from: source says which.
func (l *Limiter) giveBack(ctx context.Context, key string, source Source, p *plan, back []int64) error {
	r := bucket.Request{Action: bucket.Refund}
	r.Plan, r.Each = l.refundPlan(key, p, source).Refunding(p.Plan, back)
	return l.returnTo(ctx, key, source, r)
}

// refundPlan returns the plan of key by which tokens come back that were taken under p.
func (l *Limiter) refundPlan(key string, p *plan, source Source) *bucket.Plan {
	now := l.rules.Load()
	switch {
	case now.overrides[key] == nil && !p.ofKey: // the limits of a limiter that WithLimits returned stay
		return p.Successor(boundedKey(key))
	case source == FromFallback && now.localPlan != nil:
		return now.localPlanOf(key).Plan
	}
	return now.planOf(key).Plan
}

// returnTo sends r, which returns tokens to key, to the store that the tokens came from: source says which.
func (l *Limiter) returnTo(ctx context.Context, key string, source Source, r bucket.Request) error {
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
	_, err := store.Do(ctx, Request{Request: r, class: l.rules.Load().planOf(key).class, key: boundedKey(key)})
	return l.failed(ctx, err)
}

// Reset makes key's bucket full again: the store forgets it. Reservations stay valid. Errors and cost are those of
// Refund.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.rules.Load()
	key = boundedKey(key)
	if now.localPlan != nil {
		if err := l.fallback().Reset(ctx, now.policy.Name, key); err != nil {
			return err
		}
	}
	return l.failed(ctx, l.store.Reset(ctx, now.policy.Name, key))
}
