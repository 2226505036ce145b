package core

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// plan holds a policy's limits: checked, named and converted to integers. It never changes.
type plan struct {
	*bucket.Plan

	class   *store.Class // of the policy's keys
	given   []Limit      // as configured
	limits  []Limit      // as configured, each with a name
	fields  headerTexts
	limited bool     // one of the limits counts requests
	use     *unitUse // nil if all limits count requests
	ofKey   bool     // they are the limits of a key that has its own
}

// maxLimits bounds how many limits a policy has, because every decision computes each of them.
const maxLimits = 64

// limitMistakes returns what is wrong with the limits of a policy. list is how the caller writes the list of limits.
func limitMistakes(policy string, limits []Limit, list string) []error {
	if len(limits) == 0 {
		return []error{mistake.New(list, len(limits), "limits: at least one is required")}
	}
	if len(limits) > maxLimits {
		return []error{mistake.New(list, len(limits), "limits: at most "+strconv.Itoa(maxLimits)+" can hold together")}
	}
	var errs []error
	names := make(map[string]int)
	for i, l := range limits {
		element := list + "[" + strconv.Itoa(i) + "]."
		errs = append(errs, l.mistakes(element)...)
		if l.Name == "" {
			continue
		}
		if first, taken := names[l.Name]; taken {
			errs = append(errs, mistake.New(element+"Name", l.Name,
				"is the name of "+list+"["+strconv.Itoa(first)+"] already: give each limit a name of its own"))
			continue
		}
		names[l.Name] = i
	}
	tags := make(map[uint32]string)
	for i, name := range nameLimits(policy, limits) {
		tag := bucket.TagOf(name)
		if other, taken := tags[tag]; taken && other != name || tag == 0 {
			errs = append(errs, mistake.New(list+"["+strconv.Itoa(i)+"].Name", name,
				"has the same hash as "+strconv.Quote(other)+", and stores identify limits by that hash: choose another name"))
		}
		tags[tag] = name
	}
	return errs
}

// makePlan returns the plan of a policy's limits. It requires limits without mistakes, or a share of such limits.
func makePlan(policy string, limits []Limit) *plan {
	p := &plan{given: slices.Clone(limits), limits: slices.Clone(limits)}
	rates, units := make([]bucket.Rate, len(limits)), make([]string, len(limits))
	for i, name := range nameLimits(policy, limits) {
		name = strings.Clone(name) // it may be a view of a buffer that its owner reuses
		if p.given[i].Name != "" {
			p.given[i].Name = name
		}
		p.limits[i].Name = name
		rates[i], units[i] = bucket.NewRate(limits[i].spec(), bucket.TagOf(name)), strings.Clone(limits[i].unit())
	}
	p.Plan = bucket.NewPlan(rates)
	p.limited = p.LeastCapacity() > 0
	p.use = newUnitUse(units)
	p.class = store.NewClass(policy, p.Plan)
	p.fields = makeHeaderTexts(p.limits)
	return p
}

// nameLimits returns the names that identify limits in headers and in stored state. A limit without a name gets one: a
// sole limit its policy's name, each of several the policy's name and its interval.
func nameLimits(policy string, limits []Limit) []string {
	names, taken := make([]string, len(limits)), make(map[string]bool)
	for _, l := range limits {
		taken[l.Name] = true
	}
	for i, l := range limits {
		if names[i] = l.Name; l.Name != "" {
			continue
		}
		name := policy
		if len(limits) > 1 {
			name += "-" + shortDuration(l.RefillInterval)
			if l.otherUnit() {
				name += "-" + l.Unit
			}
		}
		names[i] = name
		for n := 2; taken[names[i]]; n++ { // two limits of the same interval
			names[i] = name + "-" + strconv.Itoa(n)
		}
		taken[names[i]] = true
	}
	return names
}

// shortDuration formats d as people write it: 1m for 1m0s. It is ASCII, because names are sent in header fields.
func shortDuration(d time.Duration) string {
	if d%Month == 0 {
		return quantity.FormatInterval(d)
	}
	s := strings.Replace(d.String(), "µ", "u", 1)
	for _, zero := range [...]string{"m0s", "h0m"} {
		if n := len(s) - len(zero); n > 0 && s[n:] == zero {
			s = s[:n+1]
		}
	}
	return s
}

// counts reports whether a limit of p counts a unit.
func (p *plan) counts(unit string) bool {
	return slices.ContainsFunc(p.limits, func(l Limit) bool { return l.unit() == unit })
}

// each is what u takes from each limit of p.
func (u Units) each(p *plan) *[]int64 {
	list := make([]int64, len(p.limits))
	for i, l := range p.limits {
		if unit := l.unit(); unit == Requests {
			list[i] = u.requests()
		} else {
			list[i] = u[unit]
		}
	}
	return &list
}

// byStoredKey returns plans by the keys that stores use.
func byStoredKey(overrides map[string]*plan) map[string]*bucket.Plan {
	plans := make(map[string]*bucket.Plan, len(overrides))
	for key, p := range overrides {
		plans[boundedKey(key)] = p.Plan
	}
	return plans
}
