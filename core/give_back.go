package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Refund returns tokens to the limits of key that count requests, for work that
// was not done. No limit gets more than what fills it. Refunding more than was
// taken admits more than the policy says. It costs one round trip to Redis. key
// is as for [Limiter.Peek], such as "ip:192.0.2.1". Where there is a [Result],
// its Undo and Settle do this for all units.
//
// Errors are [ErrCost] for a negative number of tokens, [ErrNoKey] for an empty
// key, ctx's own error if it has ended, and, whatever the policy's OnFailure,
// [ErrUnavailable] if the store can't answer. Then no tokens come back.
func (l *Limiter) Refund(ctx context.Context, key string, tokens int64) error {
	if tokens < 0 {
		return fmt.Errorf("%w: refund of %d tokens", ErrCost, tokens)
	}
	return l.charge(ctx, key, -tokens)
}

// Debit charges key for n requests that have happened already, such as at
// another service. If the tokens are not there, the bucket is in debt, and
// denies later requests until it has refilled. A debt may be larger than the
// Capacity; up to that, all of it is counted. key is as for [Limiter.Peek], such as "x-api-key:ann". Errors
// and cost are those of Refund, and [ErrUnit] if no limit counts requests.
// Observers receive a failure as [OutcomeUnsettled].
func (l *Limiter) Debit(ctx context.Context, key string, n int64) error {
	began := time.Now()
	err := l.debit(ctx, key, n)
	if err != nil && !errors.Is(err, ErrNoKey) && !errors.As(err, &callerDone{}) {
		l.unsettled(ctx, l.current(), key, FromStore, began, err)
	}
	return err
}

func (l *Limiter) debit(ctx context.Context, key string, n int64) error {
	if n < 0 {
		return fmt.Errorf("%w: debit of %d tokens", ErrCost, n)
	}
	return l.charge(ctx, key, n)
}

// charge charges the limits of key that count requests, without asking. Below 0
// n is given back.
func (l *Limiter) charge(ctx context.Context, key string, n int64) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.current()
	if n != 0 && !now.counts(Requests) {
		return fmt.Errorf("%w: %s", ErrUnit, Requests)
	}
	p := now.setOf(key)
	if n > 0 {
		p.use.take(Units{Requests: n})
	}
	each := Units{Requests: n}.each(p)
	return l.send(ctx, key, FromStore, p, bucket.Request{Action: bucket.Charge, Each: each}, false)
}

// Undo returns the tokens that the decision took, to where they came from: the
// store, or the fallback of FailLocal. It does nothing if the decision took
// nothing. Of a reservation it returns the tokens but for what others have
// reserved behind it, as golang.org/x/time/rate does: their due times stay.
// Errors and cost are those of [Limiter.Refund], and [ErrNoDecision] for a
// Result that no limiter returned.
//
// A Result can be undone or settled once: after that it is [ErrSettled], also
// if the store did not answer, because it may have returned the tokens. What an
// open circuit breaker kept from being sent is sent when it closes. Only if ctx
// has ended already, Undo can be called again. All copies of a result of
// [AllowTogether], of [Limiter.Reserve], or of a middleware's FromContext count
// as one; of copies of any other Result undo one.
func (r *Result) Undo(ctx context.Context) error {
	if r.Parts != nil {
		return r.eachPart(func(part *Result) error { return part.Undo(ctx) })
	}
	if r.limiter == nil {
		return ErrNoDecision
	}
	if !r.taken() {
		return nil
	}
	if err := r.endIn(ctx); err != nil {
		return err
	}
	return r.undo(ctx)
}

// undo returns the tokens that r took, and ends what it holds.
func (r *Result) undo(ctx context.Context) error {
	if r.due > 0 {
		cancel := bucket.Request{Action: bucket.Cancel, N: r.Cost, When: r.due}
		return r.limiter.send(ctx, r.Key, r.Source, r.set, cancel, true)
	}
	back := make([]int64, len(r.set.Rates))
	for i := range back {
		back[i] = -r.costOf(i)
	}
	return r.charge(ctx, back, func(*held) (slots, estimates bool) { return true, true })
}

// charge charges each of r's limits without asking, and ends the slots and the
// estimates that ends says. Limits that hold are charged nothing for what comes
// back by the end of the hold.
func (r *Result) charge(ctx context.Context, each []int64, ends func(h *held) (slots, estimates bool)) error {
	request := bucket.Request{Action: bucket.Charge, Each: &each}
	if h := r.held; h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		slots, estimates := ends(h)
		request.Ticket, request.Ends = h.ticket, r.endsOf(slots && !h.released, estimates && !h.settled)
		for i := range each {
			if rate := &r.set.Rates[i]; rate.Hold > 0 && each[i] < 0 {
				each[i] = 0
			}
		}
		if h.released, h.settled = h.released || slots, h.settled || estimates; slots {
			h.inUse.lose(true)
			defer r.limiter.waiters.wake(r.Key)
		}
	}
	return r.limiter.send(ctx, r.Key, r.Source, r.set, request, true)
}

// endsOf returns of each of r's limits the tokens of the hold that ends.
func (r *Result) endsOf(slots, estimates bool) *[]int64 {
	ends := make([]int64, len(r.set.Rates))
	for i := range ends {
		if rate := &r.set.Rates[i]; rate.Hold > 0 && (rate.Slots && slots || !rate.Slots && estimates) {
			ends[i] = r.costOf(i)
		}
	}
	return &ends
}

// eachPart calls do for each part. Charges of one limiter and key are one
// decision, which ends once. [ErrSettled] of several parts is one error.
func (r *Result) eachPart(do func(*Result) error) error {
	var errs []error
	for i := range r.Parts {
		if err := do(&r.Parts[i]); !errors.Is(err, ErrSettled) || !r.sharesEnd(i) && !slices.Contains(errs, err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sharesEnd reports whether an earlier part than the i-th is its decision too.
func (r *Result) sharesEnd(i int) bool {
	return slices.ContainsFunc(r.Parts[:i], func(p Result) bool { return p.once != nil && p.once == r.Parts[i].once })
}

// Settle corrects what the decision took to what the request really took, once
// that is known: {"tokens": 840} where an estimate of 1,000 was charged. Units
// that are not given keep what was charged. What is too much comes back, as by
// [Limiter.Refund]. What is missing is charged even if it is not there: the
// bucket is in debt then, and denies later requests until it has refilled. A
// cost is a number of requests: an estimate belongs in the Units of
// [Limiter.AllowUnits].
//
// Settle does nothing if the request was denied, or allowed by shadow mode. It
// is sent only if ctx has not ended: pass context.WithoutCancel(ctx) where the
// client may have gone. Settle a reservation when
// it is due. Errors are those of Undo, after which a Result is settled too, and
// [ErrCost] for a negative number and [ErrUnit], after which Settle can be
// called again. It costs one round trip to Redis, and is sent at most once: if
// there is no answer, it may or may not have been settled. Observers receive a
// failure as [OutcomeUnsettled].
func (r *Result) Settle(ctx context.Context, units Units) error {
	if r.Parts != nil {
		return r.settleParts(ctx, units)
	}
	l := r.limiter
	if l == nil {
		return ErrNoDecision
	}
	if !r.taken() {
		return nil
	}
	began := time.Now()
	err := units.check(func(unit string) bool { return r.set.counts(unit) || l.current().counts(unit) })
	if err == nil {
		if err = r.endIn(ctx); err != nil {
			return err
		}
		err = r.settle(ctx, units)
	}
	if err != nil && !errors.As(err, &callerDone{}) {
		l.unsettled(ctx, l.current(), r.Key, r.Source, began, err)
	}
	return err
}

// settle charges what was really taken in place of what was charged. Estimates
// that are held come back whole, and what was really taken is charged: also if
// they have come back before.
func (r *Result) settle(ctx context.Context, units Units) error {
	r.set.use.take(units)
	more, some := make([]int64, len(r.set.Rates)), r.hasEstimates()
	for i, unit := range r.set.units {
		actual, given := units[unit]
		rate := &r.set.Rates[i]
		switch {
		case rate.Slots:
		case rate.Hold > 0 && given:
			more[i] = actual
		case rate.Hold > 0:
			more[i] = r.costOf(i)
		case given:
			more[i] = actual - r.costOf(i)
		}
		some = some || more[i] != 0
	}
	if !some {
		return nil
	}
	return r.charge(ctx, more, func(*held) (slots, estimates bool) { return false, true })
}

// settleParts is Settle of all parts that count a unit.
func (r *Result) settleParts(ctx context.Context, units Units) error {
	counts := func(unit string) bool {
		return slices.ContainsFunc(r.Parts, func(p Result) bool {
			return p.limiter != nil && (p.limiter.current().counts(unit) || p.set != nil && p.set.counts(unit))
		})
	}
	if err := units.check(counts); err != nil {
		r.unsettled(ctx, err)
		return err
	}
	return r.eachPart(func(part *Result) error {
		its := units
		if part.set != nil {
			its = units.of(part.set.counts)
		}
		return part.Settle(ctx, its)
	})
}

// unsettled tells observers that the decision was not settled, and why.
func (r *Result) unsettled(ctx context.Context, why error) {
	for i := range r.Parts {
		r.Parts[i].unsettled(ctx, why)
	}
	if r.limiter != nil && r.taken() {
		r.limiter.unsettled(ctx, r.limiter.current(), r.Key, r.Source, time.Now(), why)
	}
}

// unsettled reports that key's bucket was not corrected.
func (l *Limiter) unsettled(ctx context.Context, now *compiled, key string, source Source, began time.Time, err error) {
	l.watch.call(ctx, Observation{Policy: now.policy.Name, Outcome: OutcomeUnsettled, Source: source, Latency: time.Since(began), Err: err, Key: key})
}

// Reset makes key's bucket full again: the store forgets it. key is as for
// [Limiter.Peek], such as "ip:192.0.2.1" or "route:/items/:id|x-api-key:ann". A
// key that no request has is no error. Errors and cost are those of Refund.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	now := l.current()
	stored := store.Key(key)
	if now.localSet != nil {
		if err := l.fallback().Reset(ctx, now.policy.Name, stored); err != nil {
			return err
		}
	}
	return l.failed(ctx, key, l.store.Reset(ctx, now.policy.Name, stored))
}

// send sends a request that returns or charges tokens of key, under the limits
// by which they were taken, to the store that they came from: source says
// which. later says that nobody asks again if it fails: then a store that could
// not be asked may execute it later.
func (l *Limiter) send(ctx context.Context, key string, source Source, p *limitSet, r bucket.Request, later bool) error {
	if err := ctx.Err(); err != nil {
		return callerDone{err}
	}
	r.Set = p.LimitSet
	request := p.class.Request(store.Key(key), r)
	if later {
		request = request.Later()
	}
	_, err := l.storeOf(source).Do(ctx, request)
	return l.failed(ctx, key, err)
}

// storeOf returns the store that a decision came from: source says which.
func (l *Limiter) storeOf(source Source) Store {
	if source == FromFallback {
		return l.fallback()
	}
	return l.store
}
