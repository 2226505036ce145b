package replay

import (
	"context"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Play replays the traffic through a policy, and searches for the smallest
// change that spares the share of clients: once for each plan that requests
// have. Notes are those of Playable.
func (t *Traffic) Play(ctx context.Context, label string, p core.Policy, share float64, step func(int)) (outcomes []*Outcome, err error) {
	given := p
	p, notes, err := t.Playable(p)
	if err != nil {
		return nil, err
	}
	for _, v := range t.views(p) {
		r, err := t.replay(ctx, v, step)
		if err != nil {
			return nil, err
		}
		if step = func(int) {}; r.Requests == 0 { // steps are those of the first
			continue // the first plan is that of requests without one
		}
		if r.Label, r.Notes, r.Plan = label, notes, v.plan; len(t.plans) > 1 {
			r.Label += ", " + v.name()
		}
		if r.Search, err = t.search(ctx, r, share); err != nil {
			return nil, err
		}
		for i := range r.Search.Changes {
			c := &r.Search.Changes[i]
			if c.Given, err = c.given(given, v.plan); err != nil {
				return nil, err
			}
		}
		outcomes = append(outcomes, r.Outcome)
	}
	return outcomes, nil
}

// given returns the limits of p, or of its plan, with the change.
func (c Change) given(p core.Policy, plan string) ([]core.Limit, error) {
	named, err := WithNames(p)
	if err != nil {
		return nil, err
	}
	limits, names := slices.Clone(p.Limits), named.Limits
	if plan != "" {
		limits, names = slices.Clone(p.Plans[plan]), named.Plans[plan]
	}
	for _, i := range c.Changed {
		for j, l := range names {
			if l.Name == c.Limits[i].Name {
				limits[j].Capacity, limits[j].RefillRate = c.Limits[i].Capacity, c.Limits[i].RefillRate
			}
		}
	}
	return limits, nil
}

// name says whose requests are counted.
func (v view) name() string {
	if v.plan == "" {
		return "no plan"
	}
	return "plan " + v.plan
}
