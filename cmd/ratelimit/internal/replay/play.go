package replay

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Play replays the traffic through a policy, and searches for the smallest
// change that spares the share of clients: once for each plan that requests
// have. Notes are those of Playable.
func (t *Traffic) Play(ctx context.Context, label string, p core.Policy, share float64, step func(int)) (outcomes []*Outcome, err error) {
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
		if r.Label, r.Notes = label, notes; len(t.plans) > 1 {
			r.Label += ", " + v.name()
		}
		if r.Search, err = t.search(ctx, r, share); err != nil {
			return nil, err
		}
		outcomes = append(outcomes, r.Outcome)
	}
	return outcomes, nil
}

// name says whose requests are counted.
func (v view) name() string {
	if v.plan == "" {
		return "no plan"
	}
	return "plan " + v.plan
}
