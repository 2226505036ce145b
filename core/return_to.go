package core

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// refundPlan returns the plan of key by which tokens come back that were taken under p.
func (r *rules) refundPlan(key string, p *plan, source Source) *bucket.Plan {
	switch own, _ := r.ownPlans(key); {
	case own == nil && !p.ofKey: // the limits of a limiter that WithLimits returned stay
		return p.Successor(r.storedKey(key))
	case source == FromFallback && r.localPlan != nil:
		return r.localPlanOf(key).Plan
	}
	return r.planOf(key).Plan
}

// returnTo sends r, which returns tokens to key, to the store that the tokens came from: source says which.
func (l *Limiter) returnTo(ctx context.Context, now *rules, key string, source Source, r bucket.Request) error {
	if err := ctx.Err(); err != nil {
		return callerDone{err}
	}
	if r.Plan == nil { // SetPolicy has removed all limits that the tokens came from, or there is nothing to return
		return nil
	}
	_, err := l.storeOf(source).Do(ctx, now.planOf(key).class.Request(now.storedKey(key), r))
	return l.failed(ctx, key, err)
}

// storeOf returns the store that a decision came from: source says which.
func (l *Limiter) storeOf(source Source) Store {
	if source == FromFallback {
		return l.fallback()
	}
	return l.store
}

// release ends holds of slots of p, of which there is at least one. source says which store has them.
func (l *Limiter) release(ctx context.Context, now *rules, p *bucket.Plan, source Source, key string, holds []bucket.Ending) error {
	r := bucket.Request{Plan: p, Action: bucket.End, Ends: holds[0]}
	if more := holds[1:]; len(more) > 0 {
		r.EndsToo = &more
	}
	err := l.returnTo(ctx, now, key, source, r)
	l.waiters.wake(key)
	return err
}
