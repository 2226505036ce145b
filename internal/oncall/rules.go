package oncall

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Rules are what a limiter has in force for each key. They don't change: ask [RulesOf] again after a change.
type Rules struct {
	Limiter *core.Limiter
	Plan    string // whose limits Limiter has; "": the policy's own
	Chosen  bool   // somebody said by which plan to decide

	// Ended reports whether an override of a key has ended lately, so that what the
	// store has of the key can be of its definitions. Nil: nobody knows.
	Ended func(key string) bool

	limits []core.Limit
	own    map[string]own // by key, in its stored form
	plans  []*Rules       // of the policy's plans, in the order of their names
}

// own is what stands out about a key.
type own struct {
	overrides []override // the one that comes first in front
	listed    bool       // the policy blocks it
	operator  bool       // an operator does
}

// override is limits that somebody gave a key.
type override struct {
	by     string
	about  string // who that is, how long it holds and why, if it is known
	limits []core.Limit
}

// Operator is who has set exceptions. The policy has overrides and blocks too.
const (
	Operator = "an operator"
	policy   = "the policy"
)

// RulesOf returns what l has in force.
func RulesOf(l *core.Limiter) *Rules {
	p, e := l.Policy(), l.Exceptions()
	r := &Rules{Limiter: l, limits: p.Limits, own: make(map[string]own)}
	note := func(key string, change func(*own)) {
		o := r.own[key]
		change(&o)
		r.own[key] = o
	}
	for key, limits := range p.Overrides {
		note(core.StoredKey(key), func(o *own) { o.overrides = []override{{by: policy, limits: limits}} })
	}
	for _, key := range p.Blocked {
		note(core.StoredKey(key), func(o *own) { o.listed = true })
	}
	for key, limits := range e.Overrides { // they come before all that the policy says
		note(key, func(o *own) { o.overrides = append([]override{{by: Operator, limits: limits}}, o.overrides...) })
	}
	for _, key := range e.Blocked {
		note(key, func(o *own) { o.operator = true })
	}
	for _, name := range slices.Sorted(maps.Keys(p.Plans)) {
		if of, err := l.WithPlan(name); err == nil { // else a new policy has come since
			r.plans = append(r.plans, &Rules{Limiter: of, Plan: name, limits: p.Plans[name], own: r.own})
		}
	}
	return r
}

// For returns the rules of a plan that somebody has chosen; "" for nobody has.
func (r *Rules) For(plan string) (*Rules, error) {
	for _, of := range r.plans {
		if of.Plan == plan {
			chosen := *of
			chosen.Chosen = true
			return &chosen, nil
		}
	}
	_, err := r.Limiter.WithPlan(plan)
	return r, err
}

// HasPlans reports whether Last may return the rules of a plan.
func (r *Rules) HasPlans() bool { return len(r.plans) > 0 }

// Last returns the rules by which a key was last decided, the policy's own or those of a plan, and what the store keeps of the key under
// these. Redis does not know a customer's plan, so they are those whose definitions wrote the most of what it keeps. It costs a call, and
// one for each plan of a key that the policy's own limits did not write. Of a store that does not show what it keeps it returns r.
func (r *Rules) Last(ctx context.Context, key string) (*Rules, core.Inspection, error) {
	last, found, fewest := r, core.Inspection{}, 0
	for i, of := range append([]*Rules{r}, r.plans...) {
		stored, err := of.Limiter.Inspect(ctx, key)
		if errors.Is(err, errors.ErrUnsupported) {
			return r, stored, nil
		} else if err != nil {
			return r, stored, err
		}
		n := of.strange(key, stored)
		if i == 0 || n < fewest {
			last, found, fewest = of, stored, n
		}
		if n == 0 {
			break
		}
	}
	return last, found, nil
}

// strange is how many of a key's stored limits other definitions wrote. An override may be newer than the key's last request: then the
// plan's own definition wrote them.
func (r *Rules) strange(key string, stored core.Inspection) int {
	n := stored.Others
	for _, s := range stored.Limits {
		before := r.Owner(key) != "" && slices.ContainsFunc(r.limits, func(l core.Limit) bool {
			return l.Capacity == s.Capacity && (l.Name == s.Limit.Name || l.Name == "")
		})
		if s.Changed && !before {
			n++
		}
	}
	return n
}

// Owner returns who gave a key limits of its own, the policy or an operator, or "" if nobody did.
func (r *Rules) Owner(key string) string {
	if o := r.own[key].overrides; len(o) > 0 {
		return o[0].by
	}
	return ""
}

// From returns where a limit of a key comes from, in words: an override or a plan, or "" for the policy's own.
func (r *Rules) From(key string, limit core.Limit) string {
	var from []string
	for _, o := range r.own[key].overrides {
		i := slices.IndexFunc(o.limits, func(l core.Limit) bool { return l.Name == limit.Name })
		if i < 0 {
			i = slices.IndexFunc(o.limits, func(l core.Limit) bool {
				return l.Name == "" && (l.Times != 0 || from == nil && l.WithName(limit.Name).String() == limit.String())
			})
		}
		if i >= 0 && o.limits[i].Times == 0 {
			return strings.Join(append([]string{"an override of " + cmp.Or(o.about, o.by)}, from...), ", ")
		} else if i >= 0 {
			from = append([]string{o.limits[i].WithName("").String() + " by " + cmp.Or(o.about, o.by)}, from...)
		}
	}
	if r.Plan != "" {
		from = append([]string{"plan " + strconv.Quote(r.Plan)}, from...)
	}
	return strings.Join(from, ", ")
}

// Describe says of the operator's override of a key whose it is, how long it holds and why, for From.
func (r *Rules) Describe(key, about string) {
	for i, o := range r.own[key].overrides {
		if o.by == Operator {
			r.own[key].overrides[i].about = about
		}
	}
}

// Blocker returns who blocks a key, the policy or an operator, or "" if nobody does.
func (r *Rules) Blocker(key string) string {
	switch o := r.own[key]; {
	case o.operator:
		return Operator
	case o.listed && r.Owner(key) != Operator:
		return policy
	}
	return ""
}

// Listed reports whether the policy blocks a key, also if an operator's override comes before that.
func (r *Rules) Listed(key string) bool { return r.own[key].listed }

// Request returns what a request commonly takes of a key: one of each unit that the key's limits count.
func (r *Rules) Request(key string) core.Units {
	units := core.Units{core.Requests: 0}
	for _, o := range append(slices.Clone(r.own[key].overrides), override{limits: r.limits}) { // which merge
		for _, limit := range o.limits {
			if limit.Times == 0 {
				units[Unit(limit)] = 1
			}
		}
	}
	return units
}
