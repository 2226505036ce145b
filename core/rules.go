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

	overrides, localOverrides map[string]*plan // by key
	overrideUnits             map[string]bool  // what the limits of overrides count
}

// planOf returns the plan of a key.
func (r *rules) planOf(key string) *plan {
	if p := r.overrides[key]; p != nil {
		return p
	}
	return r.plan
}

// localPlanOf is planOf for the fallback.
func (r *rules) localPlanOf(key string) *plan {
	if p := r.localOverrides[key]; p != nil {
		return p
	}
	return r.localPlan
}

// storedKey returns the key that stores use for a caller's key.
func (r *rules) storedKey(key string) string {
	if r.stored && len(key) <= maxKey {
		return key
	}
	return boundedKey(key)
}

// counts reports whether a limit of the policy, or of an override, counts a unit.
func (r *rules) counts(unit string) bool { return r.plan.counts(unit) || r.overrideUnits[unit] }

// newRules checks a policy and returns its rules. The error joins the policy's mistakes and errs. fallback says that the store can
// fail, so that FailLocal needs plans.
func newRules(policy Policy, fallback bool, errs ...error) (*rules, error) {
	if err := policy.refusal(errs...); err != nil {
		return nil, err
	}
	next := &rules{policy: policy, since: time.Now(), plan: makePlan(policy.Name, policy.Limits)}
	next.policy.Limits = next.plan.given
	local := policy.OnFailure == FailLocal && fallback
	if local {
		next.localPlans = &planCache{}
		next.localPlan = makePlan(policy.Name, scaled(policy.Limits, policy.LocalShare))
	}
	if len(policy.Overrides)+len(policy.Blocked) > 0 {
		next.overrides, next.localOverrides = make(map[string]*plan), make(map[string]*plan)
	}
	if len(policy.Overrides) > 0 {
		next.policy.Overrides, next.overrideUnits = make(map[string][]Limit), make(map[string]bool)
	}
	for key, limits := range policy.Overrides {
		p := makePlan(policy.Name, limits)
		p.ofKey = true
		next.overrides[key], next.policy.Overrides[key] = p, p.given
		for _, unit := range p.units {
			next.overrideUnits[unit] = true
		}
		if local {
			next.localOverrides[key] = makePlan(policy.Name, scaled(limits, policy.LocalShare))
			next.localOverrides[key].ofKey = true
		}
	}
	next.policy.Blocked = slices.Clone(policy.Blocked)
	for _, key := range policy.Blocked {
		next.overrides[key] = makePlan(policy.Name, policy.Limits).blocking()
		if local {
			next.localOverrides[key] = makePlan(policy.Name, policy.Limits).blocking()
		}
	}
	return next, nil
}
