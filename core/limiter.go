package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter makes the decisions of one policy in one store. It knows nothing of HTTP: middleware,
// workers and clients use it alike. It is safe for concurrent use, starts no goroutine and needs no
// closing.
type Limiter struct {
	store Store
	plans *planCache // of limits given per request, shared by all limiters derived from one
	watch watch

	// fallback is where FailLocal decides, made when it is first needed and kept whatever the policy becomes.
	fallback func() *MemoryStore
	rules    atomic.Pointer[rules]
}

// rules are what a limiter goes by until it is given others. They never change.
type rules struct {
	policy Policy
	plan   *plan

	// FailLocal: the limits this process grants on its own; nil under other modes.
	localPlans *planCache
	localPlan  *plan
}

// NewLimiter binds a policy to a store. It reports every mistake in both at once: the error joins a
// [ConfigError] for each.
func NewLimiter(store Store, policy Policy, options ...LimiterOption) (*Limiter, error) {
	var errs []error
	if isNil(store) {
		errs = append(errs, &ConfigError{"NewLimiter store", nil, "must be a Store"})
	} else if s, ok := store.(interface{ mistakes() []error }); ok {
		errs = append(errs, s.mistakes()...)
	}
	l := &Limiter{store: store, plans: &planCache{}, fallback: sync.OnceValue(func() *MemoryStore { return newFallback(store) })}
	for _, o := range options {
		if o != nil {
			o.limiter(l)
		}
	}
	next, err := l.newRules(policy, errs...)
	if err != nil {
		return nil, err
	}
	l.rules.Store(next)
	return l, nil
}

// newRules makes rules of a policy. errs are mistakes besides its own.
func (l *Limiter) newRules(policy Policy, errs ...error) (*rules, error) {
	errs = append(policy.mistakes(), errs...)
	errs = append(errs, limitMistakes(policy.Limits, "Policy.Limits")...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", clip(policy.Name, maxName), errors.Join(errs...))
	}
	next := &rules{policy: policy, plan: makePlan(policy.Name, policy.Limits)}
	next.policy.Limits = next.plan.given
	if _, inProcess := l.store.(*MemoryStore); policy.OnFailure == FailLocal && !inProcess {
		next.localPlans = &planCache{}
		next.localPlan = makePlan(policy.Name, scaled(policy.Limits, policy.LocalShare))
	}
	return next, nil
}

// SetPolicy replaces the policy, from the next decision on: for limits that change while a service runs. Its
// name must stay, and with it buckets keep their tokens: limits are told apart as for [Limiter.WithLimits].
// Limiters that WithLimits derived before keep what they have. When the error is not nil nothing has changed;
// it tells all mistakes, as NewLimiter does.
func (l *Limiter) SetPolicy(policy Policy) error {
	now := l.rules.Load()
	var errs []error
	if policy.Name != now.policy.Name {
		errs = append(errs, &ConfigError{"Policy.Name", policy.Name, "must stay " + strconv.Quote(now.policy.Name) + ": it is part of the buckets' keys"})
	}
	next, err := l.newRules(policy, errs...)
	if err != nil {
		return err
	}
	l.rules.Store(next)
	return nil
}

// Must returns v, or panics when err is not nil: for limiters made at start-up from constants.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Name returns the name of the limiter's policy.
func (l *Limiter) Name() string { return l.rules.Load().policy.Name }

// Policy returns the limiter's policy as it was given. The names of limits that were given none are in
// [Result.Limits].
func (l *Limiter) Policy() Policy {
	p := l.rules.Load().policy
	p.Limits = slices.Clone(p.Limits)
	return p
}

// WithLimits returns a limiter that holds keys of the same policy to other limits: for plans and
// tiers. Both share their buckets: limits of the same name (or, unnamed, of the same interval) are one,
// cut to the lower capacity, and so are two lists of one limit each, whatever its name. A limit that
// was not used on a key before starts full. Up to 1,024 lists of limits are remembered, so that
// calling this for every request costs a look-up; more are forgotten all at once.
func (l *Limiter) WithLimits(limits ...Limit) (*Limiter, error) {
	now := l.rules.Load()
	plan, errs := l.plans.get(now.policy.Name, limits, 1)
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", now.policy.Name, errors.Join(errs...))
	}
	next := *now
	next.plan = plan
	next.policy.Limits = plan.given
	if now.localPlan != nil {
		next.localPlan, _ = now.localPlans.get(now.policy.Name, limits, now.policy.LocalShare) // checked above
	}
	derived := &Limiter{store: l.store, plans: l.plans, watch: l.watch, fallback: l.fallback}
	derived.rules.Store(&next)
	return derived, nil
}

// Allow is shorthand for AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN takes cost tokens from key's bucket if every limit has them, and nothing otherwise. A cost
// of 0 takes nothing and tells the state; it is denied only while tokens are promised ahead. It costs
// at most one round trip to Redis, none to memory.
//
// The error is not nil when there is no decision: [ErrCost], the caller's own context error, or,
// under FailClosed, [ErrUnavailable]. Result.Allowed is false then.
func (l *Limiter) AllowN(ctx context.Context, key string, cost int64) (res Result, err error) {
	err = l.take(ctx, &res, Request{key: key, n: cost})
	return res, err
}

// AllowAll takes as many tokens as one request can, the smallest Capacity, or none: for a request whose cost
// nobody knows. It is AllowN otherwise; Result.Cost tells how many that are.
func (l *Limiter) AllowAll(ctx context.Context, key string) (res Result, err error) {
	err = l.take(ctx, &res, Request{key: key, all: true})
	return res, err
}

// Peek tells the state of key's bucket and takes nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 0)
}

// Refund gives tokens of key back to the store, up to each limit's capacity: for work that turned out
// cheaper or was not done. Refunding more than was taken admits more than the policy says. When the
// store can't be reached nothing is given back, whatever the policy's OnFailure, and the error is
// [ErrUnavailable].
func (l *Limiter) Refund(ctx context.Context, key string, tokens int64) error {
	if tokens < 0 {
		return fmt.Errorf("%w: refund of %d tokens", ErrCost, tokens)
	}
	if tokens == 0 {
		return nil
	}
	return l.giveBack(ctx, Request{key: key, action: refund, n: tokens, plan: l.rules.Load().plan}, FromStore)
}

// Undo gives back what the decision res took from key, to where it was taken: the store, or the
// fallback that stood in for it. Of a decision that took nothing there is nothing to undo.
func (l *Limiter) Undo(ctx context.Context, key string, res Result) error {
	if !res.Allowed || res.ShadowDenied || res.Cost == 0 || res.plan == nil {
		return nil
	}
	return l.giveBack(ctx, Request{key: key, action: refund, n: res.Cost, plan: res.plan}, res.Source)
}

// giveBack refunds or cancels where source says the tokens were taken, under the limits that r's plan says,
// and nowhere else.
func (l *Limiter) giveBack(ctx context.Context, r Request, source Source) error {
	if err := ctx.Err(); err != nil {
		return gone{err}
	}
	r.policy, r.key = l.Name(), boundedKey(r.key)
	store := l.store
	if source == FromFallback {
		store = l.fallback()
	}
	_, err := store.Do(ctx, r)
	return l.failed(ctx, err)
}

// failed tells whose failure a store's error is: the caller's, when its own context has ended, or the
// store's.
func (l *Limiter) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return gone{err}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// gone is an error of the caller's own context, which says nothing about the store.
type gone struct{ error }

func (g gone) Unwrap() error { return g.error }

// Reset makes key's bucket full again, by forgetting it. Tokens promised by Reserve stay promised.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	now := l.rules.Load()
	key = boundedKey(key)
	if now.localPlan != nil {
		if err := l.fallback().Reset(ctx, now.policy.Name, key); err != nil {
			return err
		}
	}
	return l.failed(ctx, l.store.Reset(ctx, now.policy.Name, key))
}

// take has r, which takes tokens, decided in res, and tells who watches. Results are large, so they are filled
// in where the caller wants them.
func (l *Limiter) take(ctx context.Context, res *Result, r Request) error {
	now := l.rules.Load()
	if r.n == 0 && !r.all || !l.watch.active() {
		return l.decide(ctx, now, res, &r)
	}
	began, key := time.Now(), r.key
	err := l.decide(ctx, now, res, &r)
	if !errors.Is(err, ErrCost) {
		l.watch.tell(ctx, now.policy.Name, res, key, time.Since(began), err)
	}
	return err
}

// decide has r decided by the store, or by the failure policy when the store can't answer.
func (l *Limiter) decide(ctx context.Context, now *rules, res *Result, r *Request) error {
	if r.all {
		r.n = now.plan.leastCapacity()
	}
	res.Cost = r.n
	if r.n < 0 {
		return fmt.Errorf("%w: %d tokens", ErrCost, r.n)
	}
	if err := ctx.Err(); err != nil {
		return gone{err}
	}
	r.policy, r.plan, r.key = now.policy.Name, now.plan, boundedKey(r.key)
	res.headers = now.policy.Headers
	if now.policy.Shadow {
		r.within = 0 // nobody waits
		res.headers = HeadersNone
	}
	var err error
	switch s := l.store.(type) { // stores of our own need no copies
	case *MemoryStore:
		s.decide(r, &res.answer)
	case *RedisStore:
		err = s.answer(ctx, r, &res.answer)
	default:
		res.answer, err = s.Do(ctx, *r)
	}
	if err != nil {
		err = l.onFailure(ctx, now, res, r, err)
	} else {
		res.read(now.plan, r.n)
	}
	if now.policy.Shadow {
		return res.shadow(err)
	}
	return err
}

// shadow lets a request pass that was denied, or not decided for another reason than that its caller left.
func (r *Result) shadow(err error) error {
	switch {
	case errors.As(err, &gone{}):
		return err
	case err != nil:
		r.Source = FromFailOpen
	case !r.Allowed && r.Cost > 0:
		r.ShadowDenied = true
	}
	r.Allowed, r.RetryAfter = true, 0
	return nil
}

// onFailure decides r while the store can't: err says why.
func (l *Limiter) onFailure(ctx context.Context, now *rules, res *Result, r *Request, err error) error {
	res.answer, res.Cause = Answer{}, err
	failed := l.failed(ctx, err)
	if errors.As(failed, &gone{}) {
		return failed
	}
	switch now.policy.OnFailure {
	case FailOpen:
		res.Allowed = true
		res.Source = FromFailOpen
		return nil
	case FailLocal:
		if now.localPlan == nil { // the store is in this process already
			break
		}
		r.plan = now.localPlan
		if r.all {
			r.n = r.plan.leastCapacity()
		}
		l.fallback().decide(r, &res.answer)
		res.read(now.localPlan, r.n)
		res.Source = FromFallback
		return nil
	case FailClosed:
	}
	return failed
}

// maxLocalKeys bounds the store that stands in for another.
const maxLocalKeys = 100_000

// newFallback is the store that stands in for another, on the same clock.
func newFallback(store Store) *MemoryStore {
	options := []MemoryOption{WithMaxKeys(maxLocalKeys)}
	if s, ok := store.(*RedisStore); ok && s.clock != nil {
		options = append(options, WithClock(s.clock))
	}
	return NewMemoryStore(options...)
}

// boundedKey keeps keys short: one longer than 128 bytes is replaced by its SHA-256. So is one that
// looks like such a replacement, so that no two keys are ever taken for each other.
func boundedKey(key string) string {
	if len(key) <= maxKey && !strings.HasPrefix(key, hashedKey) {
		return key
	}
	return hashKey(key)
}
