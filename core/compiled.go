package core

import (
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// compiled is a limiter's policy with what is computed from it. It never changes.
type compiled struct {
	policy Policy
	set    *limitSet
	shared bool // other limiters returned by WithLimits may have the same set

	// For FailLocal: what this process grants on its own. Else nil.
	localSets *setCache
	localSet  *limitSet

	lists   limitLists           // the policy's, by which overrides merge, also if these are a plan's or WithLimits'
	plans   map[string]*compiled // by the plan's name, and the policy's own by ""; nil: there are no plans
	limiter *Limiter             // of the plan, if r is a plan's
	given   *setCache            // of WithLimits; nil: limits are not those of one of its limiters

	// By key as stores have it:
	overrides map[string][]Limit  // the policy's
	own       keySets             // of the policy's Overrides and Blocked
	excepted  keySets             // of the Overrides of exceptions
	blocked   map[string]struct{} // the Blocked of exceptions

	exceptions *Exceptions // beside the policy; nil: none
}

// ownSets returns what key has in place of the policy's limits, or nil, and
// whether it is blocked although these limits deny nothing.
func (r *compiled) ownSets(key string) (own *ownSets, blocked bool) {
	if len(r.own)+len(r.excepted)+len(r.blocked) == 0 {
		return nil, false
	}
	key = store.Key(key)
	own = r.own[key]
	_, blocked = r.blocked[key]
	if excepted := r.excepted[key]; excepted != nil {
		blocked = blocked || own != nil && own.set.beyond != nil
		own = excepted
	}
	if own != nil && r.given != nil {
		own = r.ofGiven(key, own)
	}
	return own, blocked
}

// ofGiven is own, of a stored key, for r's limits, which are of WithLimits.
func (r *compiled) ofGiven(key string, own *ownSets) *ownSets {
	limits := r.policy.Limits
	if override := r.overrides[key]; override != nil {
		limits = r.lists.merged(limits, override)
	}
	if r.exceptions != nil {
		if override := r.exceptions.Overrides[key]; override != nil {
			limits = r.lists.merged(limits, override)
		}
	}
	of, deny := &ownSets{}, own.set.beyond != nil
	if of.set = r.given.get(r.policy.Name, limits, 1); deny {
		of.set = of.set.denying()
	}
	if r.localSet != nil {
		if of.local = r.localSets.get(r.policy.Name, limits, r.policy.LocalShare); deny {
			of.local = of.local.denying()
		}
	}
	return of
}

// setOf returns the limits of a key.
func (r *compiled) setOf(key string) *limitSet {
	own, blocked := r.ownSets(key)
	p := r.set
	if own != nil {
		p = own.set
	}
	if blocked {
		return p.denying()
	}
	return p
}

// localSetOf is setOf for the fallback.
func (r *compiled) localSetOf(key string) *limitSet {
	own, blocked := r.ownSets(key)
	p := r.localSet
	if own != nil {
		p = own.local
	}
	if blocked {
		return p.denying()
	}
	return p
}

// counts reports whether a limit of the policy, or of a key, counts a unit.
func (r *compiled) counts(unit string) bool { return r.countsAlways(unit) || r.excepted.count(unit) }

// countsAlways is counts without exceptions, which end.
func (r *compiled) countsAlways(unit string) bool {
	if r.set.counts(unit) || r.own.count(unit) {
		return true
	}
	for _, other := range r.plans {
		if other.set.counts(unit) || other.own.count(unit) {
			return true
		}
	}
	return false
}

// compile checks a policy, and computes from it. The error joins the policy's
// mistakes and errs. fallback says that the store can fail, so that FailLocal
// needs limits.
func compile(policy Policy, fallback bool, errs ...error) (*compiled, error) {
	if err := policy.refusal(errs...); err != nil {
		return nil, err
	}
	policy = policy.clone()
	next := policy.compiledOf(policy.Limits, fallback)
	if len(policy.Plans) > 0 {
		next.plans = map[string]*compiled{"": next}
		for name, limits := range policy.Plans {
			of := policy.compiledOf(limits, fallback)
			of.shared, of.plans, next.plans[name] = true, next.plans, of
		}
	}
	return next, nil
}

// compiledOf returns p for requests that have these limits.
func (p Policy) compiledOf(limits []Limit, fallback bool) *compiled {
	r := &compiled{policy: p, lists: p.lists(), set: newLimitSet(p.Name, limits), overrides: make(map[string][]Limit, len(p.Overrides))}
	for key, override := range p.Overrides {
		r.overrides[store.Key(key)] = override
	}
	if r.policy.Limits = limits; p.OnFailure == FailLocal && fallback {
		r.localSets = &setCache{}
		r.localSet = newLimitSet(p.Name, scaled(limits, p.LocalShare))
	}
	r.own = r.keySets(r.overrides, func(string) []Limit { return limits }, nil)
	r.block()
	return r
}

// keySets returns the limit sets of overrides: those of before where the limits
// are the same. limitsOf returns the limits that a key has without its override.
func (r *compiled) keySets(overrides map[string][]Limit, limitsOf func(key string) []Limit, before keySets) keySets {
	limits := make(map[string][]Limit, len(overrides))
	for key, override := range overrides {
		limits[key] = r.lists.merged(limitsOf(key), override)
	}
	return r.policy.keySets(limits, r.localSet != nil, before)
}

// block has r deny the requests of the policy's Blocked.
func (r *compiled) block() {
	if r.own == nil && len(r.policy.Blocked) > 0 {
		r.own = make(keySets, len(r.policy.Blocked))
	}
	for _, key := range r.policy.Blocked {
		key = store.Key(key)
		own := r.own[key]
		if own == nil {
			own = r.policy.ownSets(r.policy.Limits, r.localSet != nil)
			r.own[key] = own
		}
		if own.set.block(); own.local != nil {
			own.local.block()
		}
	}
}

// except sets the exceptions of r, which nobody uses yet. Nil are none.
func (r *compiled) except(e *Exceptions) {
	if r.plans != nil && !r.shared {
		plans := map[string]*compiled{"": r}
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
			return own.set.given
		}
		return r.policy.Limits
	}
	r.excepted = r.keySets(e.Overrides, limitsOf, before)
	if len(e.Blocked) > 0 {
		r.blocked = make(map[string]struct{}, len(e.Blocked))
	}
	for _, key := range e.Blocked {
		r.blocked[key] = struct{}{}
	}
}
