package core

import (
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

// byStoredKey returns k by the keys that stores use.
func (k keyPlans) byStoredKey() keyPlans {
	stored := make(keyPlans, len(k))
	for key, own := range k {
		stored[boundedKey(key)] = own
	}
	return stored
}

// successors returns the plans of k and of other, which comes first, for bucket.Plan.Replace.
func (k keyPlans) successors(of func(*ownPlans) *plan, other keyPlans) map[string]*bucket.Plan {
	plans := make(map[string]*bucket.Plan, len(k)+len(other))
	for key, own := range k.byStoredKey() {
		plans[key] = of(own).Plan
	}
	for key, own := range other {
		plans[key] = of(own).Plan
	}
	return plans
}

// keyPlans returns the plans of overrides and of blocked keys under p. A blocked key that has no override keeps the limits that limitsOf
// returns. local says whether the fallback needs plans too.
func (p *Policy) keyPlans(overrides map[string][]Limit, blocked []string, local bool, limitsOf func(key string) []Limit) keyPlans {
	if len(overrides)+len(blocked) == 0 {
		return nil
	}
	plans := make(keyPlans, len(overrides)+len(blocked))
	add := func(key string, limits []Limit) *ownPlans {
		own := &ownPlans{plan: makePlan(p.Name, limits)}
		if own.plan.ofKey = true; local {
			own.local = makePlan(p.Name, scaled(limits, p.LocalShare))
			own.local.ofKey = true
		}
		plans[key] = own
		return own
	}
	for key, limits := range overrides {
		add(key, limits)
	}
	for _, key := range blocked {
		limits, ok := overrides[key]
		if !ok {
			limits = limitsOf(key)
		}
		own := add(key, limits)
		if own.plan.block(); own.local != nil {
			own.local.block()
		}
	}
	return plans
}
