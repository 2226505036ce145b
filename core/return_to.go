package core

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// refundPlan returns the plan of key by which tokens come back that came from source.
func (r *rules) refundPlan(key string, source Source) *bucket.Plan {
	if source == FromFallback && r.localPlan != nil {
		return r.localPlanOf(key).Plan
	}
	return r.planOf(key).Plan
}

// returnTo sends r, which returns tokens to key, to the store that the tokens came from: source says which. If it fails, the caller may
// ask again.
func (l *Limiter) returnTo(ctx context.Context, now *rules, key string, source Source, r bucket.Request) error {
	return l.sendReturn(ctx, now, key, source, store.Request{Request: r})
}

// returnOnce is returnTo for what no caller asks again: if the store can't be asked now, it may execute r later.
func (l *Limiter) returnOnce(ctx context.Context, now *rules, key string, source Source, r bucket.Request) error {
	return l.sendReturn(ctx, now, key, source, store.Request{Request: r}.Later())
}

// sendReturn sends r for returnTo and returnOnce.
func (l *Limiter) sendReturn(ctx context.Context, now *rules, key string, source Source, r store.Request) error {
	if err := ctx.Err(); err != nil {
		return callerDone{err}
	}
	if r.Plan == nil { // SetPolicy has removed all limits that the tokens came from, or there is nothing to return
		return nil
	}
	r.To(now.planOf(key).class, now.storedKey(key))
	_, err := l.storeOf(source).Do(ctx, r)
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
	err := l.returnOnce(ctx, now, key, source, r)
	l.waiters.wake(key)
	return err
}
