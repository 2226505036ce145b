package replay

import (
	"maps"

	"github.com/tokenbucket-go/ratelimit/core"
)

// view is a policy as one of its plans sees it: Limits are those of the plan,
// and the policy's own stand among Plans. So what is counted and searched for
// one plan is counted and searched as for a policy without plans, while every
// request is decided by its own plan.
type view struct {
	core.Policy

	plan  string
	plans map[int32]bool // of the traffic, that are this one: their requests are counted
}

// ownPlan is the name that the policy's own limits have among the plans of a
// view. A request with this name has them anyway: a policy lacks it.
const ownPlan = " the policy's own"

// views returns p as each plan sees it that requests have. A request with a
// plan that p lacks has p's own limits.
func (t *Traffic) views(p core.Policy) (views []view) {
	of := make(map[string]int)
	for i, name := range t.plans {
		if _, known := p.Plans[name]; !known {
			name = ""
		}
		n, ok := of[name]
		if !ok {
			n, of[name] = len(views), len(views)
			views = append(views, view{p, name, make(map[int32]bool)})
			if name != "" {
				v := &views[n]
				v.Plans = maps.Clone(p.Plans)
				v.Plans[ownPlan], v.Limits = p.Limits, p.Plans[name]
				delete(v.Plans, name)
			}
		}
		views[n].plans[int32(i)] = true
	}
	return views
}

// planOf returns which plan of v the requests with a plan have.
func (v view) planOf(name string) string {
	if _, other := v.Plans[name]; other {
		return name
	}
	if name == v.plan || v.plan == "" {
		return ""
	}
	return ownPlan
}
