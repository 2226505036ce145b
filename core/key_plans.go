package core

import (
	"slices"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// keyPlans are the plans of keys that are blocked or have limits of their own.
type keyPlans map[string]*ownPlans

// ownPlans are the plans of one key.
type ownPlans struct {
	plan  *plan
	local *plan // nil where rules.localPlan is
}

// count reports whether a limit of one of the keys counts a unit.
func (k keyPlans) count(unit string) bool {
	for _, own := range k {
		if own.plan.counts(unit) {
			return true
		}
	}
	return false
}

// byStoredKey returns what keys have by the keys that stores use.
func byStoredKey[M ~map[string]V, V any](of M) M {
	stored := make(M, len(of))
	for key, own := range of {
		stored[boundedKey(key)] = own
	}
	return stored
}

// successors returns the plans of k by the keys that stores use, for bucket.Plan.Replace.
func (k keyPlans) successors(of func(*ownPlans) *plan) map[string]*bucket.Plan {
	plans := make(map[string]*bucket.Plan, len(k))
	for key, own := range byStoredKey(k) {
		plans[key] = of(own).Plan
	}
	return plans
}

// keyPlans returns the plans of keys with these limits under p: those of before where the limits are the same. local says whether the
// fallback needs plans too.
func (p *Policy) keyPlans(limitsOf map[string][]Limit, local bool, before keyPlans) keyPlans {
	if len(limitsOf) == 0 {
		return nil
	}
	plans := make(keyPlans, len(limitsOf))
	for key, limits := range limitsOf {
		own := before[key]
		if own == nil || !slices.EqualFunc(own.plan.given, limits, Limit.same) {
			own = p.ownPlans(limits, local)
		}
		plans[key] = own
	}
	return plans
}

// ownPlans returns the plans of a key that has these limits under p.
func (p *Policy) ownPlans(limits []Limit, local bool) *ownPlans {
	own := &ownPlans{plan: makePlan(p.Name, limits)}
	if own.plan.ofKey = true; local {
		own.local = makePlan(p.Name, scaled(limits, p.LocalShare))
		own.local.ofKey = true
	}
	return own
}
