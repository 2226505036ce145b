package replay

import (
	"context"
	"math"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Spare is the percentage of clients that a change spares, unless somebody says
// otherwise.
const Spare = 99.9

// Share is a percentage of clients as a share of them.
func Share(percentage float64) float64 { return percentage / 100 }

// search searches by replaying: for each knob the smallest setting. A client
// that a setting spares is spared by every higher one, so each replay needs
// only the clients that are between the last setting that was too low and the
// one that is enough.
func (t *Traffic) search(ctx context.Context, r *run, share float64) (Search, error) {
	clients := r.All
	s := Search{Share: share, Most: clients - int64(math.Ceil(float64(clients)*share-1e-6))}
	if r.Clients <= s.Most {
		s.Enough = true
		return s, nil
	}
	var open []int32 // clients that a change can spare
	for _, key := range r.denied {
		override := r.Policy.Overrides[t.Keys[key]]
		if !slices.ContainsFunc(r.Policy.Limits, func(l core.Limit) bool {
			return !slices.ContainsFunc(override, func(own core.Limit) bool { return own.Name == l.Name && own.Times == 0 })
		}) {
			s.Overrode++
		} else {
			open = append(open, key)
		}
	}
	if s.Overrode > s.Most {
		return s, nil
	}
	for _, k := range t.knobs(r.Policy, open) {
		setting, err := t.smallest(ctx, r.view, k, open, s.Most-s.Overrode)
		if err != nil {
			return s, err
		}
		if setting == 0 {
			continue
		}
		change, err := t.confirm(ctx, r.view, k, setting, s.Most)
		if err != nil {
			return s, err
		}
		if change != nil {
			s.Changes = append(s.Changes, *change)
		}
	}
	slices.SortStableFunc(s.Changes, func(a, b Change) int {
		switch {
		case a.Factor < b.Factor:
			return -1
		case a.Factor > b.Factor:
			return 1
		}
		return 0
	})
	return s, nil
}

// smallest returns the least setting of a knob that denies at most some of the
// clients, or 0 if there is none.
func (t *Traffic) smallest(ctx context.Context, p view, k knob, open []int32, most int64) (int64, error) {
	low, high, denied := int64(0), int64(0), int64(0) // low is not enough, high is (0: not known); denied are clients that all settings below high deny
	for step := int64(1); high == 0 || high-low > 1; {
		setting := low + (high-low)/2
		if high == 0 {
			if low == k.largest {
				return 0, nil
			}
			setting = min(low+step, k.largest)
			step *= 4
		}
		p.Limits, _ = k.set(setting)
		spared, shut, err := t.split(ctx, p, open)
		if err != nil {
			return 0, err
		}
		if denied+int64(len(shut)) <= most {
			high, denied, open = setting, denied+int64(len(shut)), spared
		} else {
			low, open = setting, shut
		}
	}
	return high, nil
}

// split replays clients until each is denied for the first time. It returns
// those that are never denied, and the others.
func (t *Traffic) split(ctx context.Context, p view, clients []int32) (spared, shut []int32, err error) {
	e, err := newEngine(t, p)
	if err != nil {
		return nil, nil, err
	}
	for _, key := range clients {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		denied, err := e.denies(t.Keys[key], t.of(int(key)), p)
		switch {
		case err != nil:
			return nil, nil, err
		case denied:
			shut = append(shut, key)
		default:
			spared = append(spared, key)
		}
	}
	return spared, shut, nil
}

// confirm replays all the traffic with a knob at a setting. A stepped bucket
// can deny a client that a lower setting spared, because its steps then begin
// at other times, and so can any bucket if costs differ. So it tries a few
// settings further up, and returns nil if none is enough.
func (t *Traffic) confirm(ctx context.Context, p view, k knob, setting, most int64) (*Change, error) {
	for range 8 {
		limits, factor := k.set(setting)
		p.Limits = limits
		r, err := t.replay(ctx, p, func(int) {})
		if err != nil {
			return nil, err
		}
		if r.Clients <= most {
			return &Change{What: k.what, Limit: k.limit, Factor: factor, Limits: limits, Changed: k.changed, Denied: r.Denied, Clients: r.Clients}, nil
		}
		if setting += max(1, setting/50); setting > k.largest {
			break
		}
	}
	return nil, nil //nolint:nilnil // no change is no error
}
