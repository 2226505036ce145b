package replay

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Play replays the traffic through a policy, and searches for the smallest change that spares the share of clients. Notes are
// those of Playable.
func (t *Traffic) Play(ctx context.Context, label string, p core.Policy, share float64, step func(int)) (*Outcome, error) {
	p, notes, err := t.Playable(p)
	if err != nil {
		return nil, err
	}
	r, err := t.replay(ctx, p, step)
	if err != nil {
		return nil, err
	}
	r.Label, r.Notes = label, notes
	r.Search, err = t.search(ctx, r, share)
	return r.Outcome, err
}
