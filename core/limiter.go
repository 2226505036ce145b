// Package core limits rates with token buckets, for adapters, jobs and clients.
// See https://github.com/tokenbucket-go/ratelimit/blob/main/README.md.
package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Limiter makes the decisions of one policy in one store. Most callers want one
// of three methods, each for a key, which is who is limited:
//
//   - [Limiter.Allow] allows or denies at once.
//   - [Limiter.Wait] waits for its turn.
//   - [Limiter.Acquire] waits for a slot, of a limit of [InFlight].
//
// A Limiter knows nothing of HTTP: middleware, workers and clients can all use
// it. It is safe for concurrent use, starts no goroutine and needs no closing.
type Limiter struct {
	*shared

	taken    *taken                   // what callers take; nil for limiters of WithLimits, whose limits don't change
	compiled atomic.Pointer[compiled] // replaced as a whole by SetPolicy; see current
	changing sync.Mutex               // held by SetPolicy, so that observers receive changes in their order

	base     *Limiter            // whose plan l decides by; nil if l is none of WithPlan
	planName string              // of base's policy
	planned  map[string]*Limiter // of WithPlan, by name; guarded by changing
}

// shared is what a limiter and those that it returns have in common.
type shared struct {
	store   Store
	memory  *store.Memory // the store, if it is one; decisions then need no copies
	config  *storeConfig  // the store's; nil if the store has none
	watch   watch
	sets    setCache // of limits given to WithLimits
	waiters waiters  // for slots

	// fallback returns the store for FailLocal, which its first call makes.
	fallback func() *store.Memory

	exceptions atomic.Pointer[Exceptions]
}

// NewLimiter returns a limiter of a policy, whose buckets are in store. The
// error reports every mistake in both and in the options: it joins one
// [ConfigError] for each. It does not connect to the store. Its options are
// [WithObserver], [WithPolicyObserver] and [WithLogger].
func NewLimiter(store Store, policy Policy, options ...LimiterOption) (*Limiter, error) {
	var errs []error
	l := &Limiter{shared: &shared{store: store}, taken: &taken{}}
	memory, inMemory := store.(*MemoryStore)
	switch {
	case isNil(store):
		errs = append(errs, configError("NewLimiter store", nil, "must be a Store"))
	case inMemory && memory.memory == nil:
		errs = append(errs, configError("NewLimiter store", "MemoryStore{}", "must come from NewMemoryStore"))
	case inMemory:
		l.memory = memory.memory
	}
	if len(errs) == 0 {
		l.config = configOf(store)
	}
	config := l.config
	if config != nil {
		for _, e := range config.ArgumentErrors {
			errs = append(errs, configError(e.Field, e.Value, e.Reason))
		}
	}
	if l.watch.store = config; config == nil {
		l.watch.store = new(storeConfig)
	}
	l.fallback = newFallback(config)
	for _, o := range options {
		if o != nil {
			o.observe(&l.watch)
		}
	}
	next, err := compile(policy, l.memory == nil, append(errs, l.watch.mistakes...)...)
	if err != nil {
		return nil, err
	}
	l.plan(next)
	l.compiled.Store(next)
	l.warnSameName(next, false)
	l.watch.reportPolicy(next.policy, nil)
	return l, nil
}

// configOf returns the configuration of a store, or nil if it has none.
func configOf(s Store) *storeConfig {
	configured, ok := s.(store.Configured)
	if !ok {
		return nil
	}
	if config := configured.Config(); config != nil {
		return config
	}
	return new(storeConfig)
}

// maxLocalKeys bounds how many keys the fallback of FailLocal holds.
const maxLocalKeys = 100_000

// newFallback returns a function that returns the fallback for a store with
// config, or with none. Its first call makes it.
func newFallback(config *storeConfig) func() *store.Memory {
	return sync.OnceValue(func() *store.Memory {
		options := []store.Option{WithMaxKeys(maxLocalKeys)}
		if config != nil && config.Clock != nil {
			options = append(options, WithClock(config.Clock))
		}
		return store.NewMemory(options...)
	})
}

// warnSameName warns of a limiter with the policy's name and other limits.
func (l *Limiter) warnSameName(r *compiled, change bool) {
	if l.config != nil {
		limits := r.set.limits
		before := l.config.Limiters.Policies.Note(r.policy.Name, limits, func(remembered any) bool {
			return slices.EqualFunc(remembered.([]Limit), limits, Limit.same)
		}, change)
		if before != nil {
			l.watch.warnings().Warn("ratelimit: two limiters of one store have the same policy name and different limits, so they share buckets: give each policy a name of its own, or use WithLimits",
				"code", "RL706", "policy", r.policy.Name, "limits", slices.Clone(limits), "before", before)
		}
	}
}

// failed wraps a store's error about key: in callerDone if the caller's own
// context has ended, else in ErrUnavailable. It reports state that can't be
// used.
func (l *Limiter) failed(ctx context.Context, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return callerDone{err}
	}
	l.watch.reportUnreadable(l.Name(), key, err)
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Name returns the name of the limiter's policy.
func (l *Limiter) Name() string { return l.current().policy.Name }

// Logger returns where the limiter logs warnings: see [WithLogger].
func (l *Limiter) Logger() *slog.Logger { return l.watch.warnings() }

// Limits returns the limits that hold for a key now, each with a name: those of
// the policy, the plan or WithLimits, with the key's overrides and exceptions
// in place of some. Those of a blocked key are there too. It allocates the list.
func (l *Limiter) Limits(key string) []Limit { return slices.Clone(l.current().setOf(key).limits) }

// Policy returns the limiter's policy as it was given. [Result.Limits] has the
// names of limits that were given none.
func (l *Limiter) Policy() Policy {
	return l.current().policy.clone()
}

// WithLimits returns a limiter that applies other limits to the keys of the
// same policy, for plans and tiers. The error reports every mistake in the
// limits. It remembers up to 1,024 lists of limits, so a call for every request
// costs a look-up; beyond that it forgets all of them.
//
// Limits of the same name (see [Limit.Name]) are one bucket, of both limiters.
// A limit that was not used on a key before starts full. If one name stands for
// different limits, here or in another process, each request uses its own: the
// bucket remembers what was used, so what a higher Capacity adds is there at
// once, and a rate counts from the last write. No window admits more than MaxIn of
// the largest Capacity and the fastest rate, but where modes or intervals
// differ, the refills of both can fall into one window.
func (l *Limiter) WithLimits(limits ...Limit) (*Limiter, error) {
	now := l.current()
	p, errs := l.sets.checked(now.policy.Name, limits, 1)
	if len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", now.policy.Name, errors.Join(errs...))
	}
	next := *now
	next.set, next.shared = p, true
	next.policy.Limits = p.given
	if now.localSet != nil {
		next.localSet = now.localSets.get(now.policy.Name, limits, now.policy.LocalShare)
	}
	next.given = &l.sets
	return l.with(&next), nil
}

// WithPlan returns the limiter of a plan of the policy; of the empty name that
// is l. It decides by the plan's limits and shares buckets as those of
// WithLimits do. Unlike these it follows SetPolicy; of a plan that a later
// policy lacks it has the policy's own limits. SetPolicy and SetExceptions of
// it are those of l. The error says that the policy has no such plan. It costs
// a look-up in a map and allocates nothing.
func (l *Limiter) WithPlan(name string) (*Limiter, error) {
	if name == "" {
		return l, nil
	}
	now := l.current()
	of := now.plans[name]
	if of == nil {
		return nil, &noPlan{&now.lists, name}
	}
	return of.limiter, nil
}

// plan gives each plan of r the limiter that it had, or a new one.
func (l *Limiter) plan(r *compiled) {
	for name, of := range r.plans {
		if name == "" {
			continue
		}
		if l.planned[name] == nil {
			if l.planned == nil {
				l.planned = make(map[string]*Limiter)
			}
			of := l.with(of)
			of.base, of.planName, of.taken = l, name, l.taken
			l.planned[name] = of
		}
		of.limiter = l.planned[name]
	}
}

// current returns the policy in force. A limiter that WithLimits returned takes
// over here the exceptions that another limiter has set.
func (l *Limiter) current() *compiled {
	if l.base != nil {
		now := l.base.current()
		if of := now.plans[l.planName]; of != nil {
			return of
		}
		return now
	}
	now := l.compiled.Load()
	for {
		given := l.exceptions.Load()
		if given == now.exceptions {
			return now
		}
		next := *now
		next.except(given)
		if l.compiled.CompareAndSwap(now, &next) {
			return &next
		}
		now = l.compiled.Load()
	}
}

// with returns a limiter that has another policy than l.
func (l *Limiter) with(r *compiled) *Limiter {
	w := &Limiter{shared: l.shared}
	w.compiled.Store(r)
	return w
}

// SetPolicy replaces the policy from the next decision on. Its name must stay
// the same, so that buckets keep their tokens. [Limiter.WithLimits] documents
// which limits share a bucket and what a changed limit does to it. Limiters
// that WithLimits returned before keep their limits. What Undo or Settle returns
// later goes to the limits by which it was taken.
//
// A request that is decided meanwhile is decided by either policy.
//
// A unit that decisions have taken must still be counted, or every such request
// would fail with [ErrUnit]. In shadow mode it need not be.
//
// If the error is not nil, nothing has changed. It reports every mistake. What
// has changed is logged, at level info, and passed to observers: see
// [WithPolicyObserver]. The same policy as before changes nothing.
func (l *Limiter) SetPolicy(policy Policy) error {
	if l.base != nil {
		return l.base.SetPolicy(policy)
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	now := l.current()
	next, err := l.successor(now, policy)
	if err != nil {
		return err
	}
	if changes := now.policy.changesTo(next.policy); len(changes) > 0 {
		l.replace(now, next, changes)
	}
	return nil
}

// CheckPolicy returns the error that SetPolicy would return now, and changes
// nothing.
func (l *Limiter) CheckPolicy(policy Policy) error {
	if l.base != nil {
		return l.base.CheckPolicy(policy)
	}
	_, err := l.successor(l.current(), policy)
	return err
}

// successor returns what decides by a policy that replaces that of now.
func (l *Limiter) successor(now *compiled, policy Policy) (*compiled, error) {
	var errs []error
	if policy.Name != now.policy.Name {
		errs = append(errs, configError("Policy.Name", policy.Name, "must stay "+strconv.Quote(now.policy.Name)+": it is part of the buckets' keys"))
	}
	next, err := compile(policy, l.memory == nil, errs...)
	if err != nil {
		return nil, err
	}
	next.except(now.exceptions)
	for _, unit := range l.taken.uncounted(next.countsAlways) {
		if policy.Shadow { // middleware then refuses nothing
			break
		}
		errs = append(errs, configError("Policy.Limits", unit, "is a unit that callers take and no limit counts any more, so they would all fail: keep a limit of it"))
	}
	if len(errs) > 0 {
		return nil, policy.refusal(errs...)
	}
	return next, nil
}

// replace has next decide from now on. changes are those to the policy.
func (l *Limiter) replace(now, next *compiled, changes []string) {
	l.plan(next)
	l.compiled.Store(next)
	l.warnSameName(next, true)
	l.watch.logPolicy(next.policy, changes)
	l.watch.reportPolicy(next.policy, changes)
}
