package core

import (
	"maps"
	"slices"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

// SetPolicy replaces the policy from the next decision on, for limits that change while a service runs.
//
// The policy's name must stay the same, so that buckets keep their tokens. [Limiter.WithLimits] documents which limits
// share a bucket and what a changed limit does to it. Limiters that WithLimits returned before keep their limits.
// Tokens that Undo or Cancel return later go to limits that still exist, at their current rates.
//
// A unit that decisions have taken, or that middleware takes, must still be counted: without a limit of it every such
// request would fail with [ErrUnit]. In shadow mode it need not be.
//
// A policy that is the same as before changes nothing. If the error is not nil, nothing has changed. It reports every mistake, as
// NewLimiter's does. What has changed is logged, at level info, and passed to observers: see [WithPolicyObserver].
func (l *Limiter) SetPolicy(policy Policy) error {
	finish, err := l.preparePolicy(to(policy))
	if err == nil {
		finish(true)
	}
	return err
}

// SetShadow turns shadow mode on or off, and keeps the rest of the policy, also if another SetPolicy runs at once. Errors are those of
// SetPolicy. It holds until the next SetPolicy.
func (l *Limiter) SetShadow(on bool) error {
	finish, err := l.preparePolicy(func(p Policy) Policy {
		p.Shadow = on
		return p
	})
	if err == nil {
		finish(true)
	}
	return err
}

// to returns a change to a policy, whatever was before.
func to(policy Policy) func(Policy) Policy { return func(Policy) Policy { return policy } }

// preparePolicy checks what change makes of the policy in force, as SetPolicy does. Unless it returns an error, the caller must soon
// call finish, with whether to set the policy: until then nobody can set another one.
func (l *Limiter) preparePolicy(change func(Policy) Policy) (finish func(set bool), err error) {
	if l.base != nil {
		return l.base.preparePolicy(change)
	}
	l.changing.Lock()
	defer func() {
		if err != nil {
			l.changing.Unlock()
		}
	}()
	now := l.current()
	policy := change(now.policy)
	var errs []error
	if policy.Name != now.policy.Name {
		errs = append(errs, mistake.New("Policy.Name", policy.Name, "must stay "+strconv.Quote(now.policy.Name)+": it is part of the buckets' keys"))
	}
	next, err := newRules(policy, l.memory == nil, errs...)
	if err != nil {
		return nil, err
	}
	next.except(now.exceptions)
	for _, unit := range l.taken.uncounted(next.countsAlways) {
		if policy.Shadow { // middleware then refuses nothing
			break
		}
		errs = append(errs, mistake.New("Policy.Limits", unit, "is a unit that callers take and no limit counts any more, so they would all fail: keep a limit of it"))
	}
	if len(errs) > 0 {
		return nil, policy.refusal(errs...)
	}
	return func(set bool) {
		defer l.changing.Unlock()
		if changes := now.policy.changesTo(next.policy); set && len(changes) > 0 {
			l.replace(now, next, changes)
		}
	}, nil
}

// replace has next decide from now on. changes are those to the policy.
func (l *Limiter) replace(now, next *rules, changes []string) {
	l.plan(next)
	l.rules.Store(next)
	l.warnSameName(next, true)
	defer l.watch.reportPolicy(next.policy, changes)
	if now.shared { // other limiters still decide by the plan, so it must not be marked as replaced
		return
	}
	// From now on Undo and Cancel return tokens to the new plan's limits.
	now.replacedBy(next)
	for name, of := range now.plans {
		if after := next.plans[name]; name != "" && after != nil {
			of.replacedBy(after)
		} else if name != "" {
			of.replacedBy(next)
		}
	}
}

// UnusedOverrides returns, sorted, the keys of the policy's Overrides for which no request has asked since the policy was set. A key
// that stays there although its client sends requests is not what the key function returns: package keyof makes keys.
func (l *Limiter) UnusedOverrides() []string {
	var unused []string
	now := l.current()
	for key := range now.own {
		asked := func(r *rules) bool { return r.own[key].plan.asked.Load() }
		if !asked(now) && !slices.ContainsFunc(slices.Collect(maps.Values(now.plans)), asked) {
			unused = append(unused, key)
		}
	}
	slices.Sort(unused)
	return unused
}

// replacedBy has tokens that were taken under r come back under next.
func (r *rules) replacedBy(next *rules) {
	r.plan.Replace(next.plan.Plan, next.own.successors(func(own *ownPlans) *plan { return own.plan }))
	if r.localPlan != nil && next.localPlan != nil {
		r.localPlan.Replace(next.localPlan.Plan, next.own.successors(func(own *ownPlans) *plan { return own.local }))
	}
}
