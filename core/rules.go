package core

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// rules is a limiter's policy with what is computed from it. It never changes.
type rules struct {
	policy Policy
	since  time.Time // when it was made
	plan   *plan
	shared bool // other limiters returned by WithLimits may have the same plan
	stored bool // callers give keys as stores have them: see WithStoredKeys

	// For FailLocal: what this process grants on its own. Else nil.
	localPlans *planCache
	localPlan  *plan

	lists   limitLists        // the policy's, by which overrides merge, also if these rules are a plan's or WithLimits'
	plans   map[string]*rules // by the plan's name, and the policy's own by ""; nil: there are no plans
	limiter *Limiter          // of the plan, if these are the rules of one
	given   *planCache        // of WithLimits; nil: limits are not those of one of its limiters

	// By key as stores have it:
	overrides map[string][]Limit  // the policy's
	own       keyPlans            // of the policy's Overrides and Blocked
	excepted  keyPlans            // of the Overrides of exceptions
	blocked   map[string]struct{} // the Blocked of exceptions

	exceptions *Exceptions // beside the policy; nil: none
}

// ownPlans returns what key has in place of the policy's limits, or nil, and
// whether it is blocked although these limits deny nothing.
func (r *rules) ownPlans(key string) (own *ownPlans, blocked bool) {
	if len(r.own)+len(r.excepted)+len(r.blocked) == 0 {
		return nil, false
	}
	key = r.storedKey(key)
	own = r.own[key]
	_, blocked = r.blocked[key]
	if excepted := r.excepted[key]; excepted != nil {
		blocked = blocked || own != nil && own.plan.beyond != nil
		own = excepted
	}
	if own != nil && r.given != nil {
		own = r.ofGiven(key, own)
	}
	return own, blocked
}

// ofGiven is own, of a stored key, for r's limits, which are of WithLimits.
func (r *rules) ofGiven(key string, own *ownPlans) *ownPlans {
	if !own.plan.asked.Load() {
		own.plan.asked.Store(true)
	}
	limits := r.policy.Limits
	if override := r.overrides[key]; override != nil {
		limits = r.lists.merged(limits, override)
	}
	if r.exceptions != nil {
		if override := r.exceptions.Overrides[key]; override != nil {
			limits = r.lists.merged(limits, override)
		}
	}
	of, deny := &ownPlans{}, own.plan.beyond != nil
	if of.plan = r.given.get(r.policy.Name, limits, 1); deny {
		of.plan = of.plan.denying()
	}
	if r.localPlan != nil {
		if of.local = r.localPlans.get(r.policy.Name, limits, r.policy.LocalShare); deny {
			of.local = of.local.denying()
		}
	}
	return of
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
	return store.Key(key)
}

// counts reports whether a limit of the policy, or of a key, counts a unit.
func (r *rules) counts(unit string) bool { return r.countsAlways(unit) || r.excepted.count(unit) }

// countsAlways is counts without exceptions, which end.
func (r *rules) countsAlways(unit string) bool {
	if r.plan.counts(unit) || r.own.count(unit) {
		return true
	}
	for _, other := range r.plans {
		if other.plan.counts(unit) || other.own.count(unit) {
			return true
		}
	}
	return false
}

// newRules checks a policy and returns its rules. The error joins the policy's
// mistakes and errs. fallback says that the store can fail, so that FailLocal
// needs plans.
func newRules(policy Policy, fallback bool, errs ...error) (*rules, error) {
	if err := policy.refusal(errs...); err != nil {
		return nil, err
	}
	policy = policy.clone()
	next := policy.rulesOf(policy.Limits, fallback)
	if len(policy.Plans) > 0 {
		next.plans = map[string]*rules{"": next}
		for name, limits := range policy.Plans {
			of := policy.rulesOf(limits, fallback)
			of.shared, of.plans, next.plans[name] = true, next.plans, of
		}
	}
	return next, nil
}

// rulesOf returns the rules of requests that have these limits.
func (p Policy) rulesOf(limits []Limit, fallback bool) *rules {
	r := &rules{policy: p, since: time.Now(), lists: p.lists(), plan: makePlan(p.Name, limits), overrides: make(map[string][]Limit, len(p.Overrides))}
	for key, override := range p.Overrides {
		r.overrides[store.Key(key)] = override
	}
	if r.policy.Limits = limits; p.OnFailure == FailLocal && fallback {
		r.localPlans = &planCache{}
		r.localPlan = makePlan(p.Name, scaled(limits, p.LocalShare))
	}
	r.own = r.keyPlans(r.overrides, func(string) []Limit { return limits }, nil)
	r.block()
	return r
}

// keyPlans returns the plans of overrides: those of before where the limits are
// the same. limitsOf returns the limits that a key has without its override.
func (r *rules) keyPlans(overrides map[string][]Limit, limitsOf func(key string) []Limit, before keyPlans) keyPlans {
	limits := make(map[string][]Limit, len(overrides))
	for key, override := range overrides {
		limits[key] = r.lists.merged(limitsOf(key), override)
	}
	return r.policy.keyPlans(limits, r.localPlan != nil, before)
}

// block has r deny the requests of the policy's Blocked.
func (r *rules) block() {
	if r.own == nil && len(r.policy.Blocked) > 0 {
		r.own = make(keyPlans, len(r.policy.Blocked))
	}
	for _, key := range r.policy.Blocked {
		key = store.Key(key)
		own := r.own[key]
		if own == nil {
			own = r.policy.ownPlans(r.policy.Limits, r.localPlan != nil)
			r.own[key] = own
		}
		if own.plan.block(); own.local != nil {
			own.local.block()
		}
	}
}

// except sets the exceptions of r, which nobody uses yet. Nil are none.
func (r *rules) except(e *Exceptions) {
	if r.plans != nil && !r.shared {
		plans := map[string]*rules{"": r}
		for name, of := range r.plans {
			if name != "" {
				next := *of
				next.except(e)
				next.plans, plans[name] = plans, &next
			}
		}
		r.plans = plans
	}
	before := r.excepted
	if r.exceptions, r.excepted, r.blocked = e, nil, nil; e == nil {
		return
	}
	limitsOf := func(key string) []Limit {
		if own := r.own[key]; own != nil {
			return own.plan.given
		}
		return r.policy.Limits
	}
	r.excepted = r.keyPlans(e.Overrides, limitsOf, before)
	if len(e.Blocked) > 0 {
		r.blocked = make(map[string]struct{}, len(e.Blocked))
	}
	for _, key := range e.Blocked {
		r.blocked[key] = struct{}{}
	}
}
