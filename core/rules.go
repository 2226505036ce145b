package core

import (
	"slices"
	"time"
)

// rules is a limiter's policy with what is computed from it. It never changes.
type rules struct {
	policy Policy
	since  time.Time // when it was made
	plan   *plan
	shared bool // other limiters returned by WithLimits may have the same plan
	stored bool // callers give keys as stores have them: see WithStoredKeys

	// For FailLocal: the limits that this process grants on its own. Nil in other modes and with a MemoryStore.
	localPlans *planCache
	localPlan  *plan

	own        keyPlans            // of the policy's Overrides and Blocked, by key as callers give it
	exceptions *Exceptions         // beside the policy; nil: none
	excepted   keyPlans            // of their Overrides, by key as stores have it
	blocked    map[string]struct{} // their Blocked, by key as stores have it
}

// ownPlans returns what key has in place of the policy's limits, or nil, and whether an exception blocks it.
func (r *rules) ownPlans(key string) (own *ownPlans, blocked bool) {
	if len(r.excepted)+len(r.blocked) > 0 {
		stored := r.storedKey(key)
		_, blocked = r.blocked[stored]
		if own = r.excepted[stored]; own != nil {
			return own, blocked
		}
	}
	return r.own[key], blocked
}

// planOf returns the plan of a key.
func (r *rules) planOf(key string) *plan {
	own, blocked := r.ownPlans(key)
	p := r.plan
	if own != nil {
		p = own.plan
	}
	if blocked {
		return p.denying()
	}
	return p
}

// localPlanOf is planOf for the fallback.
func (r *rules) localPlanOf(key string) *plan {
	own, blocked := r.ownPlans(key)
	p := r.localPlan
	if own != nil {
		p = own.local
	}
	if blocked {
		return p.denying()
	}
	return p
}

// storedKey returns the key that stores use for a caller's key.
func (r *rules) storedKey(key string) string {
	if r.stored {
		return shortKey(key)
	}
	return boundedKey(key)
}

// counts reports whether a limit of the policy, or of a key, counts a unit.
func (r *rules) counts(unit string) bool { return r.countsAlways(unit) || r.excepted.count(unit) }

// countsAlways is counts without exceptions, which end.
func (r *rules) countsAlways(unit string) bool { return r.plan.counts(unit) || r.own.count(unit) }

// newRules checks a policy and returns its rules. The error joins the policy's mistakes and errs. fallback says that the store can
// fail, so that FailLocal needs plans.
func newRules(policy Policy, fallback bool, errs ...error) (*rules, error) {
	if err := policy.refusal(errs...); err != nil {
		return nil, err
	}
	next := &rules{policy: policy, since: time.Now(), plan: makePlan(policy.Name, policy.Limits)}
	next.policy.Limits, next.policy.Blocked = next.plan.given, slices.Clone(policy.Blocked)
	if policy.OnFailure == FailLocal && fallback {
		next.localPlans = &planCache{}
		next.localPlan = makePlan(policy.Name, scaled(policy.Limits, policy.LocalShare))
	}
	next.own = policy.keyPlans(policy.Overrides, next.localPlan != nil, nil)
	if next.own == nil && len(policy.Blocked) > 0 {
		next.own = make(keyPlans, len(policy.Blocked))
	}
	for _, key := range policy.Blocked {
		own := next.own[key]
		if own == nil {
			own = policy.ownPlans(policy.Limits, next.localPlan != nil)
			next.own[key] = own
		}
		if own.plan.block(); own.local != nil {
			own.local.block()
		}
	}
	if len(policy.Overrides) > 0 {
		next.policy.Overrides = make(map[string][]Limit)
	}
	for key := range policy.Overrides {
		next.policy.Overrides[key] = next.own[key].plan.given
	}
	return next, nil
}

// except sets the exceptions of r, which must be in nobody's hands yet. Nil are none.
func (r *rules) except(e *Exceptions) {
	before := r.excepted
	if r.exceptions, r.excepted, r.blocked = e, nil, nil; e == nil {
		return
	}
	r.excepted = r.policy.keyPlans(e.Overrides, r.localPlan != nil, before)
	if len(e.Blocked) > 0 {
		r.blocked = make(map[string]struct{}, len(e.Blocked))
	}
	for _, key := range e.Blocked {
		r.blocked[key] = struct{}{}
	}
}
