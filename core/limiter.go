package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// Limiter makes the decisions of one policy in one store. It knows nothing of HTTP: middleware,
// workers and clients use it alike. It is safe for concurrent use, starts no goroutine and needs no
// closing.
type Limiter struct {
	store  Store
	memory *MemoryStore // the store, if it is one: decisions need no copies then
	config *StoreConfig // the store's; nil if it does not tell
	plans  *planCache   // of limits given per request, shared by all limiters derived from one
	watch  watch

	// fallback is where FailLocal decides, made when it is first needed and kept whatever the policy becomes.
	fallback func() *MemoryStore
	rules    atomic.Pointer[rules]
}

// rules are what a limiter goes by until it is given others. They never change.
type rules struct {
	policy Policy
	plan   *plan
	shared bool // the plan is also that of other limiters that WithLimits derived

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
	}
	l := &Limiter{store: store, plans: &planCache{}}
	l.memory, _ = store.(*MemoryStore)
	if s, ok := store.(ConfiguredStore); ok && len(errs) == 0 {
		l.config = s.Config()
		errs = append(errs, l.config.Mistakes...)
	}
	config := l.config
	l.fallback = sync.OnceValue(func() *MemoryStore { return newFallback(config) })
	for _, o := range options {
		if o != nil {
			o.observe(&l.watch)
		}
	}
	next, err := l.newRules(policy, errs...)
	if err != nil {
		return nil, err
	}
	l.rules.Store(next)
	l.warnSameName(next, false)
	return l, nil
}

// maxLocalKeys bounds the store that stands in for another.
const maxLocalKeys = 100_000

// newFallback is the store that stands in for one with this configuration, nil if it is not known.
func newFallback(config *StoreConfig) *MemoryStore {
	options := []MemoryOption{WithMaxKeys(maxLocalKeys)}
	if config != nil && config.Clock != nil {
		options = append(options, WithClock(config.Clock))
	}
	return NewMemoryStore(options...)
}

// newRules makes rules of a policy. errs are mistakes besides its own.
func (l *Limiter) newRules(policy Policy, errs ...error) (*rules, error) {
	if err := policy.refusal(errs...); err != nil {
		return nil, err
	}
	next := &rules{policy: policy, plan: makePlan(policy.Name, policy.Limits)}
	next.policy.Limits = next.plan.given
	if policy.OnFailure == FailLocal && l.memory == nil {
		next.localPlans = &planCache{}
		next.localPlan = makePlan(policy.Name, scaled(policy.Limits, policy.LocalShare))
	}
	return next, nil
}

// SetPolicy replaces the policy, from the next decision on: for limits that change while a service runs. Its
// name must stay, and with it buckets keep their tokens: limits are told apart as for [Limiter.WithLimits], and
// what a change does to a bucket is told there. Limiters that WithLimits derived before keep what they have.
// What was taken before comes back, by Undo or Cancel, to those of its limits that are left, as they are then.
// When the error is not nil nothing has changed; it tells all mistakes, as NewLimiter does.
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
	before := l.rules.Swap(next)
	l.warnSameName(next, true)
	if before.shared {
		return nil
	}
	before.plan.Replace(next.plan.Plan)
	if before.localPlan != nil && next.localPlan != nil {
		before.localPlan.Replace(next.localPlan.Plan)
	}
	return nil
}

// warnSameName warns if another limiter of l's store has the name of r's policy and other limits.
func (l *Limiter) warnSameName(r *rules, change bool) {
	if l.config != nil {
		l.config.known.warn(l.watch.logger, r.policy.Name, r.plan.limits, change)
	}
}

// Must returns v, or panics when err is not nil: for limiters made at start-up from constants.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// isNil reports whether v is nil or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
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

// Name returns the name of the limiter's policy.
func (l *Limiter) Name() string { return l.rules.Load().policy.Name }

// Policy returns the limiter's policy as it was given. The names of limits that were given none are in
// [Result.Limits].
func (l *Limiter) Policy() Policy {
	p := l.rules.Load().policy
	p.Limits = slices.Clone(p.Limits)
	return p
}

// WithLimits returns a limiter that holds keys of the same policy to other limits: for plans and tiers. Both
// share their buckets: limits of one name are one bucket. Without a name, a sole limit has its policy's, and one
// of several its policy's and its interval, such as "api-1m". A limit that was not used on a key before starts
// full. Up to 1,024 lists of limits are remembered, so that calling this for every request costs a look-up; more
// are forgotten all at once.
//
// Where one name stands for different limits, here or in another process, each request goes by its own:
//   - A lower Capacity cuts the bucket; under a higher one it fills up from where it is. A bucket that has been
//     full is as one that was never used: full, whatever the Capacity.
//   - The time since the last change of a bucket refills at the rate of the request that comes next. So no
//     window admits more than MaxIn of the largest Capacity and the fastest rate; where modes or intervals
//     differ, the refill of both may fall into it.
func (l *Limiter) WithLimits(limits ...Limit) (*Limiter, error) {
	now := l.rules.Load()
	plan, errs := l.plans.get(now.policy.Name, limits, 1)
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", now.policy.Name, errors.Join(errs...))
	}
	next := *now
	next.plan, next.shared = plan, true
	next.policy.Limits = plan.given
	if now.localPlan != nil {
		next.localPlan, _ = now.localPlans.get(now.policy.Name, limits, now.policy.LocalShare) // checked above
	}
	derived := &Limiter{store: l.store, memory: l.memory, config: l.config, plans: l.plans, watch: l.watch, fallback: l.fallback}
	derived.rules.Store(&next)
	return derived, nil
}
