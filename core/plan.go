package core

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// plan holds a policy's limits: checked, named and converted to integers. It never changes, but for asked and blocked.
type plan struct {
	*bucket.Plan

	class     *store.Class // of the policy's keys
	given     []Limit      // as configured
	limits    []Limit      // as configured, each with a name
	units     []string     // what each of limits counts
	texts     *headerTexts
	limited   bool         // one of the limits counts requests
	use       *unitUse     // nil if all limits count requests
	slots     *bucket.Plan // those of limits that are slots; nil: there are none
	estimates bool         // some limits hold estimates
	ofKey     bool         // they are the limits of a key that has its own
	beyond    *[]int64     // of a blocked key: what each request asks of each limit, which is more than any can hold; else nil
	asked     atomic.Bool  // ofKey: a request has asked for tokens of the key

	blocked atomic.Pointer[plan] // see denying; nil: nobody needs it yet
}

// makePlan returns the plan of a policy's limits. It requires limits without mistakes, or a share of such limits.
func makePlan(policy string, limits []Limit) *plan {
	p := &plan{given: slices.Clone(limits), limits: slices.Clone(limits), units: make([]string, len(limits))}
	rates, plain := make([]bucket.Rate, len(limits)), each(limits, Limit.plain)
	for i, name := range limit.Names(policy, plain) {
		name = strings.Clone(name) // it may be a view of a buffer that its owner reuses
		if p.given[i].Name != "" {
			p.given[i].Name = name
		}
		p.limits[i].Name, plain[i].Name = name, name
		rates[i], p.units[i] = bucket.NewRate(plain[i].Spec(), bucket.TagOf(name, plain[i].Mode)), strings.Clone(plain[i].UnitName())
	}
	p.Plan = bucket.NewPlan(rates)
	p.limited = p.LeastCapacity() > 0
	p.slots = p.Of(func(r *bucket.Rate) bool { return r.Slots })
	p.estimates = slices.ContainsFunc(rates, func(r bucket.Rate) bool { return r.Hold > 0 && !r.Slots })
	p.use = newUnitUse(p.units)
	p.class = store.NewClass(policy, p.Plan)
	p.texts = newHeaderTexts(plain)
	return p
}

// block has p deny every request, as one that asks for more than a limit can hold. So a block needs no other way through a store.
func (p *plan) block() {
	beyond := make([]int64, len(p.Rates))
	for i := range beyond {
		beyond[i] = p.Rates[i].Capacity + 1
	}
	p.beyond = &beyond
}

// denying returns the plan of keys whose limits are those of p and which an exception blocks.
func (p *plan) denying() *plan {
	if p.beyond != nil {
		return p
	}
	if p.blocked.Load() == nil {
		d := &plan{
			Plan: bucket.NewPlan(p.Rates), class: p.class, given: p.given, limits: p.limits, units: p.units, texts: p.texts,
			limited: p.limited, slots: p.slots, estimates: p.estimates, ofKey: true,
		}
		d.block()
		p.blocked.CompareAndSwap(nil, d)
	}
	return p.blocked.Load()
}

// counts reports whether a limit of p counts a unit.
func (p *plan) counts(unit string) bool {
	return slices.Contains(p.units, unit)
}

// each is what u takes from each limit of p.
func (u Units) each(p *plan) *[]int64 {
	list := make([]int64, len(p.limits))
	for i, unit := range p.units {
		if unit == Requests {
			list[i] = u.requests()
		} else {
			list[i] = u[unit]
		}
	}
	return &list
}
