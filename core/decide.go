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

// Allow takes one token of key, such as "user:7", if each limit of the policy
// that counts requests has one, and otherwise nothing: Result.Allowed says
// which. It is shorthand for AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN takes cost tokens of key from every limit that counts requests, if all
// have them, and otherwise nothing. It costs at most one round trip to Redis,
// and none with a MemoryStore. A denial is no error.
//
// If there is no decision, AllowN returns an error and Result.Allowed is false:
// [ErrCost] for a negative cost, [ErrNoKey] for an empty key, [ErrUnit] if no
// limit counts requests, ctx's own error, or, under [FailClosed],
// [ErrUnavailable].
//
// A cost of 0 takes nothing. It is denied only in debt: while tokens are
// promised ahead, or after [Limiter.Debit] or [Result.Settle] charged more than
// there was.
func (l *Limiter) AllowN(ctx context.Context, key string, cost int64) (res Result, err error) {
	err = l.take(ctx, l.current(), &res, &request{key: key, Request: store.Request{Request: bucket.Request{N: cost}}})
	return res, err
}

// AllowUnits takes units of key, such as {"tokens": 1200}, which is 1 request
// and 1,200 tokens, if every limit has them, and otherwise nothing. Result.Cost
// is the number of requests; if no limit counts requests, the 1 is not taken.
// Errors and cost are those of AllowN, and [ErrUnit] for a unit that no limit of
// the policy counts.
func (l *Limiter) AllowUnits(ctx context.Context, key string, units Units) (res Result, err error) {
	r := request{key: key, Request: store.Request{Request: bucket.Request{N: 1}}, units: units}
	err = l.take(ctx, l.current(), &res, &r)
	return res, err
}

// AllowAbove is AllowN for work that leaves something to others, such as batch
// work beside people: it takes cost tokens if at least floor tokens are left
// then. Of 1,000 tokens a cost of 800 above 200 passes, and then one more does
// not. It is for limits that count requests: for other units see Floor of a
// [Charge]. RetryAfter is the time until cost and floor are there, and [Never] if
// they exceed a Capacity. The fallback of FailLocal, which has a share of each
// limit, leaves that share of floor. Errors and cost are those of AllowN, and
// [ErrCost] for a negative floor. It allocates the list of what it leaves.
func (l *Limiter) AllowAbove(ctx context.Context, key string, cost, floor int64) (res Result, err error) {
	r := request{key: key, Request: store.Request{Request: bucket.Request{N: cost}}, floor: Units{Requests: floor}}
	err = l.take(ctx, l.current(), &res, &r)
	return res, err
}

// AllowAtMost takes as many tokens of key as every limit that counts requests
// has, up to most. Result.Cost is how many. It is denied only if there is none:
// then Cost is 0, and RetryAfter is the time until there is one. Tokens on
// lease in another process are not there. In shadow mode Cost is what was
// there. Errors and cost are those of AllowN.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, most int64) (res Result, err error) {
	r := request{key: key, Request: store.Request{Request: bucket.Request{N: most}}}
	if most > 0 {
		r.N, r.Times = 1, min(most, mostTimes)
	}
	err = l.take(ctx, l.current(), &res, &r)
	return res, err
}

// Peek returns what a request of key would get now, and takes nothing. The
// request is for one of each unit that the key's limits count: Allowed says
// whether it would pass, and RetryAfter when it can. Peek always asks the
// store, and observers don't see it. Errors and cost are those of AllowN. If the
// store is away, FailOpen allows, with a Source of FromFailOpen and no Limits,
// and FailLocal tells of this process alone.
//
// The key of a request that middleware has limited is what its extractor
// returned, and not the value alone:
//
//	limiter.Peek(ctx, "ip:192.0.2.1")                   // ByIP()
//	limiter.Peek(ctx, "x-api-key:ann")                  // ByHeader("X-Api-Key")
//	limiter.Peek(ctx, "route:/items/:id|x-api-key:ann") // Join(ByRoute(), ByHeader("X-Api-Key"))
//	limiter.Peek(ctx, core.JoinKey("user", tenant, id)) // a function that returns this
//
// In values '%' is written as %25 and '|' as %7C. An [Observation] has the key
// of its request. With any other key Peek returns a full bucket.
func (l *Limiter) Peek(ctx context.Context, key string) (res Result, err error) {
	r := request{key: key, peek: true, Request: store.Request{Request: bucket.Request{N: 1, Dry: true}}}
	err = l.decide(ctx, l.current(), &res, &r)
	res.untaken, res.held = true, nil
	return res, err
}

// take decides r, which takes tokens, and reports the decision to observers and
// the log. It writes to *res instead of returning a Result, because Results are
// large.
func (l *Limiter) take(ctx context.Context, now *compiled, res *Result, r *request) error {
	if r.peeks() || !l.watch.active() {
		return l.decide(ctx, now, res, r)
	}
	began := time.Now()
	err := l.decide(ctx, now, res, r)
	if !mistaken(err) {
		l.report(ctx, now, res, r.key, began, err)
	}
	return err
}

// report reports a decision on key that began at an instant.
func (l *Limiter) report(ctx context.Context, now *compiled, res *Result, key string, began time.Time, err error) {
	slots, hold := int64(0), time.Duration(0)
	if err == nil && len(l.watch.observers) > 0 {
		slots, hold = res.slotsTaken()
	}
	l.watch.report(ctx, now.policy.Name, now.setOf(key).LeastCapacity(), slots, res, key, time.Since(began), err)
	if slots > 0 {
		res.held.inUse = l.watch.inUse(now.policy.Name, res.Source, key)
		res.held.inUse.take(slots, hold)
	}
}

// mistaken reports whether err says that r can't be decided, so is no decision.
func mistaken(err error) bool {
	return errors.Is(err, ErrCost) || errors.Is(err, ErrNoKey) || errors.Is(err, ErrUnit) || errors.Is(err, ErrSlots)
}

// decide has the store decide r, or the policy's OnFailure if that can't.
func (l *Limiter) decide(ctx context.Context, now *compiled, res *Result, r *request) error {
	p := now.setOf(r.key)
	r.bindSet(now, p)
	res.limiter, res.Key = l, r.key
	res.Cost = r.N * max(1, r.Times)
	if err := r.check(ctx, now); err != nil {
		return err
	}
	if !r.peek && (r.units != nil || p.use != nil || l.taken != nil && !l.taken.requests.Load()) {
		l.noteUnits(now, p, r)
	}
	res.headers = now.policy.Headers
	r.To(p.class, store.Key(r.key))
	if now.policy.Shadow {
		r.When, r.Shadow = 0, true // no caller waits, so promise nothing ahead, and no denial makes a debt
		res.headers, res.inShadow = HeadersNone, true
	}
	if p.slots != nil {
		if err := l.waitForReleases(ctx, now.policy.Name, r.key); err != nil {
			return err
		}
	}
	var err error
	if l.memory != nil {
		err = l.memory.Answer(&r.Request, &res.answer)
	} else {
		res.answer, err = l.store.Do(ctx, r.Request)
	}
	if err != nil {
		err = l.onFailure(ctx, now, res, r, err)
	} else {
		res.fillFrom(p, r)
	}
	if now.policy.Shadow {
		return res.shadow(err)
	}
	return err
}

// shadow allows r in shadow mode. It keeps err if the caller's context ended.
func (r *Result) shadow(err error) error {
	switch {
	case errors.As(err, &callerDone{}):
		return err
	case err != nil:
		r.Source = FromFailOpen
	case !r.Allowed && r.asked():
		r.ShadowDenied = true
	}
	r.Allowed, r.RetryAfter = true, 0
	return nil
}

// asked reports whether the request asked for any tokens.
func (r *Result) asked() bool {
	return r.Cost > 0 || r.each != nil && slices.Max(*r.each) > 0
}

// onFailure decides r as the policy's OnFailure says. err is the store's error.
func (l *Limiter) onFailure(ctx context.Context, now *compiled, res *Result, r *request, err error) error {
	res.answer, res.Cause = store.Answer{}, err
	failed := l.failed(ctx, r.key, err)
	if errors.As(failed, &callerDone{}) {
		return failed
	}
	switch now.policy.OnFailure {
	case FailOpen:
		if res.Source = FromFailOpen; now.setOf(r.key).beyond != nil && !r.free(now) {
			res.RetryAfter = Never // a blocked key
			return nil
		}
		res.Allowed = true
		return nil
	case FailLocal:
		if now.localSet == nil { // the failed store is a MemoryStore, so there is no fallback
			break
		}
		p := now.localSetOf(r.key)
		r.floor = r.floor.share(now.policy.share())
		r.bindSet(now, p)
		r.To(p.class, store.Key(r.key))
		if l.fallback().Answer(&r.Request, &res.answer) != nil {
			break
		}
		res.fillFrom(p, r)
		res.Source = FromFallback
		return nil
	case FailClosed:
	}
	return failed
}

// fillFrom sets r's fields from its answer to req.
func (r *Result) fillFrom(p *limitSet, req *request) {
	switch {
	case req.Times == 0:
		r.read(p, req.N, req.Each)
	case r.answer.Allowed:
		r.read(p, r.answer.Granted, nil)
	default: // it asked for one
		r.read(p, 0, Units{}.each(p))
	}
	if r.Allowed && req.Holds() {
		r.held = &held{ticket: req.Ticket}
	}
}

// mostTimes is the most tokens that AllowAtMost takes at once: no bucket has
// more.
const mostTimes = 1 << 50

// noteUnits notes what r takes under p, and warns of units that nobody takes.
func (l *Limiter) noteUnits(now *compiled, p *limitSet, r *request) {
	if r.units == nil {
		if r.N > 0 && now.countsAlways(Requests) {
			l.taken.add(Requests)
		}
	} else {
		for unit, n := range r.units {
			if n > 0 && now.countsAlways(unit) {
				l.taken.add(unit)
			}
		}
	}
	u := p.use
	if u == nil || u.over.Load() || r.peeks() {
		return
	}
	if r.units == nil {
		u.take(Units{Requests: max(1, r.N)})
	} else {
		u.take(r.units)
		u.take(Units{Requests: r.N})
	}
	for _, unit := range u.untaken() {
		l.watch.warnings().Warn("ratelimit: a limit has never applied, because no request has taken its unit: take the unit, spelled as the limit spells it, or correct the limit",
			"code", "RL715", "policy", now.policy.Name, "unit", unit, "decisions", untakenFor)
	}
}

// request is what a caller asks of one key.
type request struct {
	store.Request

	key   string // as the caller passed it
	peek  bool   // only find out, by Dry, what one of each unit would get
	units Units  // ask for these; under sets Each
	floor Units  // leave these; under sets Floors
}

// peeks reports whether r only asks for the state of its bucket.
func (r *request) peeks() bool { return r.N == 0 && r.units == nil }

// free reports whether r costs nothing, so that no block denies it.
func (r *request) free(now *compiled) bool {
	for unit, n := range r.units {
		if n > 0 && unit != Requests {
			return false
		}
	}
	return r.peeks() || r.units != nil && (r.units.requests() == 0 || !now.counts(Requests))
}

// check returns why r can't be decided, whatever the store says.
func (r *request) check(ctx context.Context, now *compiled) error {
	if err := checkKey(r.key); err != nil {
		return err
	}
	if r.N < 0 {
		return fmt.Errorf("%w: %d tokens", ErrCost, r.N)
	}
	if err := r.units.check(now.counts); err != nil {
		return err
	}
	if err := r.floor.check(now.counts); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	if r.units == nil && !r.peek && r.N > 0 && !now.set.limited && !now.counts(Requests) {
		return fmt.Errorf("%w: %s", ErrUnit, Requests)
	}
	if r.Action == bucket.Reserve && now.setOf(r.key).slots != nil {
		return ErrSlots
	}
	if err := ctx.Err(); err != nil {
		return callerDone{err}
	}
	return nil
}

// bindSet sets the limits for r, and what it asks of each.
func (r *request) bindSet(now *compiled, p *limitSet) {
	r.Set, r.Floors = p.LimitSet, nil
	if p.beyond != nil && !r.free(now) {
		r.Each, r.N, r.Times = p.beyond, r.N*max(1, r.Times), 0
		return
	}
	switch {
	case r.peek:
		r.Each = p.ones()
	case r.units != nil:
		r.N, r.Each = r.units.requests(), r.units.each(p)
	case r.Times > 0 && !p.counts(Requests): // no limit of this key has less than all
		r.N, r.Times = r.N*r.Times, 0
	}
	if r.floor != nil {
		r.Floors = r.floor.floors(p)
	}
	if r.Holds() {
		r.Ticket = newTicket()
	}
}
