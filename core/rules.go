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

	own        keyPlans    // by key, as callers give it
	exceptions *Exceptions // beside the policy; nil: none
	excepted   keyPlans    // of exceptions, by key as stores have it
}

// ownPlans returns what key has in place of the policy's limits, or nil.
func (r *rules) ownPlans(key string) *ownPlans {
	if len(r.excepted) > 0 {
		if own := r.excepted[r.storedKey(key)]; own != nil {
			return own
		}
	}
	return r.own[key]
}

// planOf returns the plan of a key.
func (r *rules) planOf(key string) *plan {
	if own := r.ownPlans(key); own != nil {
		return own.plan
	}
	return r.plan
}

// localPlanOf is planOf for the fallback.
func (r *rules) localPlanOf(key string) *plan {
	if own := r.ownPlans(key); own != nil {
		return own.local
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

// counts reports whether a limit of the policy, or of a key, counts a unit.
func (r *rules) counts(unit string) bool {
	return r.plan.counts(unit) || r.own.count(unit) || r.excepted.count(unit)
}

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
	next.own = policy.keyPlans(policy.Overrides, policy.Blocked, next.localPlan != nil, func(string) []Limit { return policy.Limits })
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
	r.exceptions, r.excepted = e, nil
	if e == nil {
		return
	}
	own := r.own.byStoredKey()
	r.excepted = r.policy.keyPlans(e.Overrides, e.Blocked, r.localPlan != nil, func(key string) []Limit {
		if own := own[key]; own != nil {
			return own.plan.given
		}
		return r.policy.Limits
	})
}
