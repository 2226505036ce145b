package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Refund returns tokens to the limits of key that count requests, for work that
// was not done. No limit gets more than its capacity, less what is reserved or
// on lease. Refunding more than was taken admits more than the policy says. It
// costs one round trip to Redis. For a request that middleware has limited, key
// is what its extractor returned, such as "ip:192.0.2.1": see [Limiter.Peek].
//
// Errors are [ErrCost] for a negative number of tokens, [ErrNoKey] for an empty
// key, ctx's own error if it has ended, and, whatever the policy's OnFailure,
// [ErrUnavailable] if the store can't answer. Then no tokens come back.
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
	now := l.current()
	r := bucket.Request{Set: now.setOf(key).LimitSet, Action: bucket.Refund, N: tokens}
	return l.returnTo(ctx, now, key, FromStore, store.Request{Request: r})
}

// RefundUnits is Refund of units. It returns only the units that are given: no
// request, unless units has [Requests]. Slots come back by [Result.Release]
// alone. Errors are those of Refund, and [ErrUnit].
func (l *Limiter) RefundUnits(ctx context.Context, key string, units Units) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.current()
	if err := units.check(now.counts); err != nil {
		return err
	}
	p := now.setOf(key)
	each := make([]int64, len(p.limits))
	for i, unit := range p.units {
		each[i] = units[unit]
	}
	r := bucket.Request{Set: p.LimitSet, Action: bucket.Refund, Each: &each}
	return l.returnTo(ctx, now, key, FromStore, store.Request{Request: r})
}

// Undo returns the tokens that the decision took, to where they came from: the
// store, or the fallback of FailLocal. It does nothing if the decision took
// nothing. For the result of a reservation it is [Reservation.Cancel]. Errors
// and cost are those of [Limiter.Refund], and [ErrNoDecision] for a Result that
// no limiter returned.
//
// A Result can be undone or settled once: after that it is [ErrSettled], also
// if the store did not answer, because it may have returned the tokens. What an
// open circuit breaker kept from being sent is sent when it closes. Only if ctx
// has ended already, Undo can be called again. All copies of a result of
// [AllowTogether], of a [Reservation], or of a middleware's FromContext count
// as one; of copies of any other Result undo one.
func (r *Result) Undo(ctx context.Context) error {
	if r.limiter == nil {
		return ErrNoDecision
	}
	if !r.taken() || r.each == nil && r.Cost == 0 {
		return nil
	}
	if err := r.endIn(ctx); err != nil {
		return err
	}
	return r.undo(ctx, r.limiter.current())
}

// undo returns the tokens that r took, under the policy of now.
func (r *Result) undo(ctx context.Context, now *compiled) error {
	l := r.limiter
	switch {
	case !r.taken():
		return nil
	case r.held != nil:
		return r.undoHeld(ctx, now)
	case r.ticket != 0:
		return l.endHold(ctx, now, r.key, r, r.Cost)
	case r.each == nil && r.Cost == 0:
		return nil
	}
	p := now.refundSet(r.key, r.Source)
	if r.each != nil || p != r.set.LimitSet && p.Recounts(r.set.LimitSet) { // each gets what it was charged
		back := make([]int64, len(r.set.limits))
		for i := range back {
			back[i] = r.costOf(i)
		}
		return l.returnOnce(ctx, now, r.key, r.Source, now.giving(r.key, r.Source, r.set, back))
	}
	refund := bucket.Request{Set: p.Common(r.set.LimitSet), Action: bucket.Refund, N: r.Cost}
	return l.returnOnce(ctx, now, r.key, r.Source, refund)
}

// Settle corrects what the decision took to what the request really took, once
// that is known: {"tokens": 840} where an estimate of 1,000 was charged. Units
// that are not given keep what was charged. What is too much comes back, as by
// [Limiter.Refund]. What is missing is charged even if it is not there: the
// bucket is in debt then, and denies later requests until it has refilled. A
// cost is a number of requests: an estimate belongs in the Units of
// [Limiter.AllowUnits].
//
// Settle does nothing if the decision took nothing. Settle a reservation when
// it is due. Errors are those of Undo, after which a Result is settled too, and
// [ErrCost] for a negative number and [ErrUnit], after which Settle can be
// called again. It costs one round trip to Redis, and is sent at most once: if
// there is no answer, it may or may not have been settled. Observers receive a
// failure as [OutcomeUnsettled].
func (r *Result) Settle(ctx context.Context, units Units) error {
	l := r.limiter
	if l == nil {
		return ErrNoDecision
	}
	if !r.taken() {
		return nil
	}
	now := l.current()
	if err := units.check(func(unit string) bool { return now.counts(unit) || r.set.counts(unit) }); err != nil {
		l.unsettled(ctx, now, r.key, r.Source, time.Now(), err)
		return err
	}
	if err := r.endIn(ctx); err != nil {
		return err
	}
	r.set.use.take(units)
	if r.held != nil {
		return l.settling(ctx, now, r.key, r.Source, func() error { return r.settleHeld(ctx, now, units) })
	}
	back := make([]int64, len(r.set.limits))
	for i, unit := range r.set.units {
		if actual, given := units[unit]; given {
			back[i] = r.costOf(i) - actual
		}
	}
	return l.settling(ctx, now, r.key, r.Source, func() error {
		return l.returnOnce(ctx, now, r.key, r.Source, now.giving(r.key, r.Source, r.set, back))
	})
}

// settling calls do, and reports its failure unless the caller has gone.
func (l *Limiter) settling(ctx context.Context, now *compiled, key string, source Source, do func() error) error {
	began := time.Now()
	err := do()
	if err != nil && !errors.As(err, &hook.CallerDone{}) {
		l.unsettled(ctx, now, key, source, began, err)
	}
	return err
}

// unsettled tells observers that the decision was not settled, and why.
func (r *Result) unsettled(ctx context.Context, why error) {
	if r.limiter != nil && r.taken() {
		r.limiter.unsettled(ctx, r.limiter.current(), r.key, r.Source, time.Now(), why)
	}
}

// unsettled reports that key's bucket was not corrected.
func (l *Limiter) unsettled(ctx context.Context, now *compiled, key string, source Source, began time.Time, err error) {
	l.watch.call(ctx, Observation{Policy: now.policy.Name, Outcome: OutcomeUnsettled, Source: source, Latency: time.Since(began), Err: err, Key: key})
}

// Debit charges key for n requests that have happened already, such as at
// another service. If the tokens are not there, the bucket is in debt, and
// denies later requests until it has refilled. A debt can always be twice the
// Capacity; for limits on a calendar it can be what up to 4,096 periods bring.
// key is as for Refund, such as "header:x-api-key:k-123". Errors and cost are
// those of [Result.Settle].
func (l *Limiter) Debit(ctx context.Context, key string, n int64) error {
	return l.DebitUnits(ctx, key, Units{Requests: n})
}

// DebitUnits is Debit of units. It charges only the units that are given: no
// request, unless units has [Requests].
func (l *Limiter) DebitUnits(ctx context.Context, key string, units Units) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.current()
	if err := units.check(now.counts); err != nil {
		l.unsettled(ctx, now, key, FromStore, time.Now(), err)
		return err
	}
	p := now.setOf(key)
	p.use.take(units)
	back := make([]int64, len(p.limits))
	for i, unit := range p.units {
		back[i] = -units[unit]
	}
	return l.settling(ctx, now, key, FromStore, func() error {
		return l.returnTo(ctx, now, key, FromStore, store.Request{Request: now.giving(key, FromStore, p, back)})
	})
}

// endHold ends the hold of a reservation and returns its n tokens.
func (l *Limiter) endHold(ctx context.Context, now *compiled, key string, res *Result, n int64) error {
	return l.endHolds(ctx, now, key, res.set, res.Source, []bucket.Ending{{Ticket: res.ticket, At: res.answer.Due, Back: n}})
}

// endHolds ends holds of reservations under p in the store of source.
func (l *Limiter) endHolds(ctx context.Context, now *compiled, key string, p *limitSet, source Source, holds []bucket.Ending) error {
	r := bucket.Request{Set: now.refundSet(key, source).Common(p.LimitSet), Action: bucket.End, Ends: holds[0]}
	if more := holds[1:]; len(more) > 0 {
		r.EndsToo = &more
	}
	return l.returnOnce(ctx, now, key, source, r)
}

// giving returns the request that returns tokens to key, so many to each limit
// of p; of a negative number it takes them. source says which store the tokens
// came from. The request has no Set if there is nothing to return.
func (r *compiled) giving(key string, source Source, p *limitSet, back []int64) bucket.Request {
	gives := bucket.Request{Action: bucket.Refund}
	now := r.refundSet(key, source)
	if each, some := now.EachOf(p.LimitSet, back); some {
		gives.Set, gives.Each = now, &each
	}
	return gives
}

// Reset makes key's bucket full again: the store forgets it. Reservations stay
// valid. For a client that middleware limits, key is what its extractor
// returned, such as "ip:192.0.2.1": see [Limiter.Peek]. A key that no request
// has is no error. Errors and cost are those of Refund.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.current()
	stored := now.storedKey(key)
	if now.localSet != nil {
		if err := l.fallback().Reset(ctx, now.policy.Name, stored); err != nil {
			return err
		}
	}
	return l.failed(ctx, key, l.store.Reset(ctx, now.policy.Name, stored))
}

// undoHeld gives back what r took, and ends what it holds. Slots are released
// even if the policy has them no longer: another process may still count them.
func (r *Result) undoHeld(ctx context.Context, now *compiled) error {
	back := make([]int64, len(r.set.limits))
	for i := range back {
		if r.set.Rates[i].Hold == 0 {
			back[i] = r.costOf(i)
		}
	}
	p := now.refundSet(r.key, r.Source)
	if gone := r.set.Of(func(rate *bucket.Rate) bool { return rate.Slots && p.IndexOf(rate.Tag) < 0 }); gone != nil {
		if p = p.Common(r.set.LimitSet); p != nil {
			gone = bucket.NewLimitSet(slices.Concat(p.Rates, gone.Rates))
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

// settleHeld is Settle of a decision that holds something. Estimates come back,
// and what was really taken is charged. So an estimate that has come back
// before is charged all the same.
func (r *Result) settleHeld(ctx context.Context, now *compiled, units Units) error {
	back := make([]int64, len(r.set.limits))
	for i, unit := range r.set.units {
		actual, given := units[unit]
		if !given {
			actual = r.costOf(i)
		}
		if back[i] = r.costOf(i) - actual; r.set.Rates[i].Hold > 0 {
			back[i] = -actual
		}
	}
	p := now.refundSet(r.key, r.Source)
	if r.set.slots != nil { // they are released, and not settled
		p = p.Of(func(rate *bucket.Rate) bool { return !rate.Slots })
	}
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	r.held.settled = true
	return r.limiter.giveBackAndEnd(ctx, now, r, p, back)
}

// giveBackAndEnd returns tokens of r's decision to the limits of p that it took
// them from, so many to each of r's limits, and ends what the decision holds of
// these limits. r.held.mu is held.
func (l *Limiter) giveBackAndEnd(ctx context.Context, now *compiled, r *Result, p *bucket.LimitSet, back []int64) error {
	if p == nil {
		return nil
	}
	each, _ := p.EachOf(r.set.LimitSet, back)
	return l.returnOnce(ctx, now, r.key, r.Source, bucket.Request{Set: p, Action: bucket.Refund, Each: &each, Ends: r.held.ending()})
}

// refundSet returns the limits of key by which tokens of source come back.
func (r *compiled) refundSet(key string, source Source) *bucket.LimitSet {
	if source == FromFallback && r.localSet != nil {
		return r.localSetOf(key).LimitSet
	}
	return r.setOf(key).LimitSet
}

// returnOnce is returnTo for what no caller asks again: if the store can't be
// asked now, it may execute r later.
func (l *Limiter) returnOnce(ctx context.Context, now *compiled, key string, source Source, r bucket.Request) error {
	return l.returnTo(ctx, now, key, source, store.Request{Request: r}.Later())
}

// returnTo sends r, which returns tokens to key, to the store that the tokens
// came from: source says which. If it fails, the caller may ask again.
func (l *Limiter) returnTo(ctx context.Context, now *compiled, key string, source Source, r store.Request) error {
	if err := ctx.Err(); err != nil {
		return hook.Done(err)
	}
	if r.Set == nil { // SetPolicy has removed all limits that the tokens came from, or there is nothing to return
		return nil
	}
	r.To(now.setOf(key).class, now.storedKey(key))
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
