package replay

import (
	"context"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Play is Decide, and then Search for each outcome.
func (t *Traffic) Play(ctx context.Context, label string, p core.Policy, share float64, step func(int)) ([]*Outcome, error) {
	outcomes, err := t.Decide(ctx, label, p, step)
	if err != nil {
		return nil, err
	}
	for _, o := range outcomes {
		if err := t.Search(ctx, o, share); err != nil {
			return nil, err
		}
	}
	return outcomes, nil
}

// Decide replays the traffic through a policy: once for each plan that requests
// have. Step is called from time to time, with how many requests were decided
// since. Notes are those of Playable.
func (t *Traffic) Decide(ctx context.Context, label string, p core.Policy, step func(int)) (outcomes []*Outcome, err error) {
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
		r.given, r.run = given, r
		outcomes = append(outcomes, r.Outcome)
	}
	return outcomes, nil
}

// Search searches for the smallest changes that spare the share of clients. It
// replays the clients that o denied many times, and all others once for each
// change. O is an outcome of t, and has no Search yet.
func (t *Traffic) Search(ctx context.Context, o *Outcome, share float64) error {
	found, err := t.search(ctx, o.run, share)
	if err != nil {
		return err
	}
	for i := range found.Changes {
		c := &found.Changes[i]
		if c.Given, err = c.given(o.run.given, o.Plan); err != nil {
			return err
		}
	}
	o.Search = found
	return nil
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
