package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limiter makes the decisions of one policy in one store. It knows nothing of HTTP: middleware,
// workers and clients use it alike. It is safe for concurrent use, starts no goroutine and needs no
// closing.
type Limiter struct {
	store  Store
	policy Policy
	plan   *plan
	plans  *planCache // of limits given per request, shared by all limiters derived from one

	// FailLocal: the limits this process grants on its own, and where.
	local      *MemoryStore
	localPlans *planCache
	localPlan  *plan
}

// NewLimiter binds a policy to a store. It reports every mistake in both at once: the error joins a
// [ConfigError] for each.
func NewLimiter(store Store, policy Policy) (*Limiter, error) {
	errs := policy.mistakes()
	if isNil(store) {
		errs = append(errs, &ConfigError{"NewLimiter store", nil, "must be a Store"})
	} else if s, ok := store.(interface{ mistakes() []error }); ok {
		errs = append(errs, s.mistakes()...)
	}
	errs = append(errs, limitMistakes(policy.Limits, "Policy.Limits")...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", clip(policy.Name, maxName), errors.Join(errs...))
	}
	plan := makePlan(policy.Name, policy.Limits)
	policy.Limits = plan.given
	l := &Limiter{store: store, policy: policy, plan: plan, plans: &planCache{}}
	if _, inProcess := store.(*MemoryStore); policy.OnFailure == FailLocal && !inProcess {
		l.local = newFallback(store)
		l.localPlans = &planCache{}
		l.localPlan = makePlan(policy.Name, scaled(policy.Limits, policy.LocalShare))
	}
	return l, nil
}

// Must returns v, or panics when err is not nil: for limiters made at start-up from constants.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Name returns the name of the limiter's policy.
func (l *Limiter) Name() string { return l.policy.Name }

// Policy returns the limiter's policy as it was given. The names of limits that were given none are in
// [Result.Limits].
func (l *Limiter) Policy() Policy {
	p := l.policy
	p.Limits = slices.Clone(p.Limits)
	return p
}

// WithLimits returns a limiter that holds keys of the same policy to other limits: for plans and
// tiers. Both share their buckets: limits of the same name (or, unnamed, of the same interval) are one,
// cut to the lower capacity, and so are two lists of one limit each, whatever its name. A limit that
// was not used on a key before starts full. Up to 1,024 lists of limits are remembered, so that
// calling this for every request costs a look-up; more are forgotten all at once.
func (l *Limiter) WithLimits(limits ...Limit) (*Limiter, error) {
	plan, errs := l.plans.get(l.policy.Name, limits, 1)
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", l.policy.Name, errors.Join(errs...))
	}
	derived := *l
	derived.plan = plan
	derived.policy.Limits = plan.given
	if l.local != nil {
		derived.localPlan, _ = l.localPlans.get(l.policy.Name, limits, l.policy.LocalShare) // checked above
	}
	return &derived, nil
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
	return l.giveBack(ctx, Request{key: key, action: refund, n: tokens}, FromStore)
}

// Undo gives back what the decision res took from key, to where it was taken: the store, or the
// fallback that stood in for it. Of a decision that took nothing there is nothing to undo.
func (l *Limiter) Undo(ctx context.Context, key string, res Result) error {
	if !res.Allowed || res.Cost == 0 || res.plan == nil {
		return nil
	}
	return l.giveBack(ctx, Request{key: key, action: refund, n: res.Cost}, res.Source)
}

// giveBack refunds or cancels where source says the tokens were taken, and nowhere else.
func (l *Limiter) giveBack(ctx context.Context, r Request, source Source) error {
	if err := ctx.Err(); err != nil {
		return gone{err}
	}
	r.policy, r.plan, r.key = l.policy.Name, l.plan, boundedKey(r.key)
	store := l.store
	if source == FromFallback && l.local != nil {
		r.plan, store = l.localPlan, l.local
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
	key = boundedKey(key)
	if l.local != nil {
		if err := l.local.Reset(ctx, l.policy.Name, key); err != nil {
			return err
		}
	}
	return l.failed(ctx, l.store.Reset(ctx, l.policy.Name, key))
}

// take has r, which takes tokens, decided in res: by the store, or by the failure policy when the store
// can't answer. Results are large, so they are filled in where the caller wants them.
func (l *Limiter) take(ctx context.Context, res *Result, r Request) error {
	res.Cost = r.n
	if r.n < 0 {
		return fmt.Errorf("%w: %d tokens", ErrCost, r.n)
	}
	if err := ctx.Err(); err != nil {
		return gone{err}
	}
	r.policy, r.plan, r.key = l.policy.Name, l.plan, boundedKey(r.key)
	res.headers = l.policy.Headers
	var err error
	switch s := l.store.(type) { // stores of our own need no copies
	case *MemoryStore:
		s.decide(&r, &res.answer)
	case *RedisStore:
		err = s.answer(ctx, &r, &res.answer)
	default:
		res.answer, err = s.Do(ctx, r)
	}
	if err != nil {
		return l.onFailure(ctx, res, r, err)
	}
	res.read(l.plan, r.n)
	return nil
}

// onFailure decides r while the store can't: err says why.
func (l *Limiter) onFailure(ctx context.Context, res *Result, r Request, err error) error {
	res.answer, res.Cause = Answer{}, err
	failed := l.failed(ctx, err)
	if errors.As(failed, &gone{}) {
		return failed
	}
	switch l.policy.OnFailure {
	case FailOpen:
		res.Allowed = true
		res.Source = FromFailOpen
		return nil
	case FailLocal:
		if l.local == nil { // the store is in this process already
			break
		}
		r.plan = l.localPlan
		l.local.decide(&r, &res.answer)
		res.read(l.localPlan, r.n)
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
