package replay

import (
	"context"
	"math"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// search searches the smallest changes of a policy's limits that spare clients:
// by replaying the requests through changed limits. It spares 999 of 1,000
// clients: they are never denied.
//
// A change raises the bursts of limits, their rates, or both, by a percentage.
// It is the smallest if one percent less is not enough, or, of a number below
// 100, one less.
type search struct {
	t      *Traffic
	policy core.Policy
}

// most returns how many clients a change may leave denied.
func (s *search) most() int { return len(s.t.clients) / 1000 }

const share = "99.9 % of clients"

// advise sets the changes of an outcome, and what it says of them. Denied are
// the clients that the policy denies.
func (s *search) advise(ctx context.Context, o *Outcome, denied []int32) error {
	if len(denied) == 0 {
		return nil
	}
	clients := slices.DeleteFunc(slices.Clone(denied), s.isException)
	switch {
	case len(clients) == 0:
		o.Advice = "Their own overrides and blocks deny them, which no change of the limits changes."
		return nil
	case len(clients) <= s.most():
		o.Advice = "It spares " + share + " as it is."
		return nil
	}
	for _, raised := range raises {
		c, err := s.change(ctx, raised, clients)
		if err != nil {
			return err
		}
		if c != nil {
			o.Changes = append(slices.DeleteFunc(o.Changes, c.within), *c)
		}
	}
	switch len(o.Changes) {
	case 0:
		o.Advice = "No higher rate or burst was found that spares " + share + "."
	case 1:
		o.Advice = "The smallest change that spares " + share + ":"
	default:
		o.Advice = "The smallest changes that spare " + share + ", each on its own:"
	}
	return nil
}

// within reports whether no limit of c has a larger burst or rate than that of
// another change.
func (c Change) within(other Change) bool {
	for i, l := range c.Limits {
		if l.Capacity > other.Limits[i].Capacity || l.RefillRate > other.Limits[i].RefillRate {
			return false
		}
	}
	return true
}

// isException reports whether the policy has an override or a block for a
// client. A change of the policy's limits may not concern it.
func (s *search) isException(client int32) bool {
	key := s.t.clients[client]
	_, overridden := s.policy.Overrides[key]
	return overridden || slices.Contains(s.policy.Blocked, key)
}

// raises are the ways in which a limit is raised by a percentage.
var raises = []raise{{rate: true, burst: true}, {rate: true}, {burst: true}}

type raise struct{ rate, burst bool }

// of returns the raised limit. A quota has one number, which is both.
func (r raise) of(l core.Limit, percent int) core.Limit {
	if percent == 0 {
		return l
	}
	quota := l.Mode == core.Aligned
	if r.burst || quota {
		l.Capacity = int64(more(float64(l.Capacity), percent))
	}
	if r.rate || quota {
		l.RefillRate = more(l.RefillRate, percent)
	}
	return l
}

// more returns v and some percent of it: a whole number if v is one.
func more(v float64, percent int) float64 {
	const most = 999_999_999_999_999 // as core.Limit has it
	raised := v * float64(100+percent) / 100
	if v == math.Trunc(v) {
		return min(most, math.Ceil(raised-1e-9))
	}
	return math.Round(raised*1e9) / 1e9
}

// change returns the smallest change of a kind, or nil if none is enough.
//
// If all requests of a client pass, no limit sees fewer of them because another
// one denies. So each limit is raised on its own, and the next one need not
// spare the clients that it leaves denied.
func (s *search) change(ctx context.Context, r raise, clients []int32) (*Change, error) {
	p, most := s.policy, s.most()
	p.Limits = slices.Clone(p.Limits)
	for i, l := range p.Limits {
		if !counts(l) {
			continue
		}
		percent, left, err := s.smallest(ctx, r, l, clients, most)
		if err != nil || percent < 0 {
			return nil, err
		}
		p.Limits[i] = r.of(l, percent)
		most -= len(left)
		clients = slices.DeleteFunc(slices.Clone(clients), func(client int32) bool { return left[client] })
	}
	// The steps of a stepped limit with another rate begin at other times, so that
	// it may deny clients which the policy spares.
	c := newCounter(s.t, "")
	if err := s.t.decide(ctx, p, func(int32) bool { return true }, c.count); err != nil {
		return nil, err
	}
	if left := slices.DeleteFunc(slices.Clone(c.denied), s.isException); len(left) > s.most() {
		return nil, nil //nolint:nilnil // no change is no error
	}
	return &Change{p.Limits, c.Denied, len(c.denied)}, nil
}

// smallest returns the smallest percentage by which a limit must be raised so
// that it denies at most some of the clients, and these: 0 if it does as it is,
// and -1 if none is enough.
func (s *search) smallest(ctx context.Context, r raise, l core.Limit, clients []int32, most int) (int, map[int32]bool, error) {
	// A client that a limit spares is spared by a higher one too. So each replay
	// needs only the clients that are not decided yet.
	low, high := -1, -1            // low is not enough, and high is
	denied := make(map[int32]bool) // by whatever is below high
	for step := 1; high < 0 || high-low > 1; {
		percent := (low + high) / 2
		if high < 0 {
			if low > maxPercent {
				return -1, nil, nil
			}
			percent = low + step
			step *= 4
		}
		spared, shut, err := s.split(ctx, r.of(l, percent), clients)
		if err != nil {
			return 0, nil, err
		}
		if len(denied)+len(shut) > most {
			low, clients = percent, shut
			continue
		}
		high, clients = percent, spared
		for _, client := range shut {
			denied[client] = true
		}
	}
	return high, denied, nil
}

// maxPercent bounds the search: 10,000 times as much.
const maxPercent = 1_000_000

// split replays clients through one limit until each is denied. It returns those
// that never are, and the others.
func (s *search) split(ctx context.Context, l core.Limit, clients []int32) (spared, shut []int32, err error) {
	open := make([]bool, len(s.t.clients))
	for _, client := range clients {
		open[client] = true
	}
	p := core.Policy{Name: s.policy.Name, Limits: []core.Limit{l}}
	if valid := p.Validate() == nil; !valid { // a bucket must be full within 100 years
		return nil, clients, nil
	}
	err = s.t.decide(ctx, p, func(client int32) bool { return open[client] }, func(r request, res core.Result) { open[r.client] = res.Allowed })
	for _, client := range clients {
		if open[client] {
			spared = append(spared, client)
		} else {
			shut = append(shut, client)
		}
	}
	return spared, shut, err
}
