package core

import (
	"context"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Refund gives tokens of key back to the store, for work that turned out cheaper or was not done: up to each
// limit's capacity, less what is reserved or on lease. Refunding more than was taken admits more than the policy says. When the
// store can't be reached nothing is given back, whatever the policy's OnFailure, and the error is
// [ErrUnavailable]; [ErrCost] is that of fewer than 0 tokens, [ErrNoKey] of an empty key, ctx's own when it has ended.
// It costs one round trip to Redis.
func (l *Limiter) Refund(ctx context.Context, key string, tokens int64) error {
	if err := keyed(key); err != nil {
		return err
	}
	if tokens < 0 {
		return fmt.Errorf("%w: refund of %d tokens", ErrCost, tokens)
	}
	if tokens == 0 {
		return nil
	}
	return l.giveBack(ctx, key, FromStore, bucket.Request{Plan: l.rules.Load().plan.Plan, Action: bucket.Refund, N: tokens})
}

// Undo gives back what the decision res took from key, to where it was taken: the store, or the
// fallback that stood in for it. Of a decision that took nothing there is nothing to undo, and of a reservation it is
// [Reservation.Cancel]. Errors and cost are those of Refund.
func (l *Limiter) Undo(ctx context.Context, key string, res Result) error {
	if err := keyed(key); err != nil {
		return err
	}
	if !res.Allowed || res.ShadowDenied || res.Cost == 0 || res.plan == nil {
		return nil
	}
	r := bucket.Request{Plan: res.plan.ForRefund(), Action: bucket.Refund, N: res.Cost}
	if res.ticket != 0 {
		r.Action, r.N, r.Ends = bucket.End, 0, bucket.Ending{Ticket: res.ticket, Back: res.Cost}
	}
	return l.giveBack(ctx, key, res.Source, r)
}

// giveBack has r, which returns tokens of a key, decided by the store that source says they were taken from.
func (l *Limiter) giveBack(ctx context.Context, key string, source Source, r bucket.Request) error {
	if err := ctx.Err(); err != nil {
		return gone{err}
	}
	if r.Plan == nil { // none of the limits is left
		return nil
	}
	store := l.store
	if source == FromFallback {
		store = l.fallback()
	}
	_, err := store.Do(ctx, Request{Request: r, policy: l.rules.Load().plan.policy, key: boundedKey(key)})
	return l.failed(ctx, err)
}

// Reset makes key's bucket full again, by forgetting it. Tokens promised by Reserve stay promised. Errors and
// cost are those of Refund.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := keyed(key); err != nil {
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
