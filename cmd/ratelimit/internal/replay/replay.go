package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Policy is a policy to replay.
type Policy struct {
	core.Policy

	Label string // what the report calls it
}

// Check returns an error for a policy that denies nothing of a log, because a
// log does not have what its limits count.
func (p Policy) Check() error {
	if !slices.ContainsFunc(p.Limits, counts) {
		return fmt.Errorf("%s has no limit that counts requests", p.Label)
	}
	return nil
}

// counts reports whether a limit counts what a log has: requests, and not how
// many run at once.
func counts(l core.Limit) bool {
	return l.Mode != core.Concurrent && (l.Unit == "" || l.Unit == core.Requests)
}

// Replay runs the requests through policies.
func (t *Traffic) Replay(ctx context.Context, policies ...Policy) (*Report, error) {
	if len(t.requests) == 0 {
		err := errors.New("no line is a request")
		for _, o := range t.leftOut() {
			err = fmt.Errorf("%w; %s", err, o)
		}
		return nil, err
	}
	t.sort()
	r := &Report{
		Logs: t.logs, Requests: len(t.requests), Clients: len(t.clients), From: t.from(), To: t.to(),
		LeftOut: t.leftOut(), Remarks: t.remarks(),
	}
	for _, p := range policies {
		o, err := t.outcome(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Label, err)
		}
		r.Policies = append(r.Policies, o)
	}
	return r, nil
}

// outcome replays all requests through a policy.
func (t *Traffic) outcome(ctx context.Context, given Policy) (*Outcome, error) {
	p, notes := replayed(given.Policy)
	c := newCounter(t, given.Label)
	c.Limits, c.Notes = p.Limits, append(c.Notes, notes...)
	if err := t.decide(ctx, p, func(int32) bool { return true }, c.count); err != nil {
		return nil, err
	}
	c.finish(t)
	s := search{t, p}
	return c.Outcome, s.advise(ctx, c.Outcome, c.denied)
}

// replayed returns p as requests of a log can run through it, and what is left
// out.
func replayed(p core.Policy) (_ core.Policy, notes []string) {
	if p.Shadow {
		p.Shadow = false
		notes = append(notes, "the policy is in shadow mode: this is what it would deny if it were enforced")
	}
	if len(p.Plans) > 0 {
		notes = append(notes, "plans are left out: a log does not say which plan a client has")
	}
	for _, l := range p.Limits {
		if !counts(l) {
			notes = append(notes, fmt.Sprintf("limit %s is left out: a log does not have what it counts", l))
		}
	}
	return p, notes
}

// decide runs the requests of the clients that are wanted through a policy, in
// the order of their times. The library decides each as in a service.
func (t *Traffic) decide(ctx context.Context, p core.Policy, wanted func(client int32) bool, decided func(request, core.Result)) error {
	var now time.Time
	store := core.NewMemoryStore(core.WithMaxKeys(len(t.clients)), core.WithClock(func() time.Time { return now }))
	limiter, err := core.NewLimiter(store, p)
	if err != nil {
		return err
	}
	for i, r := range t.requests {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if !wanted(r.client) {
			continue
		}
		now = time.UnixMicro(r.at)
		res, err := limiter.Allow(context.Background(), t.clients[r.client])
		if err != nil {
			return err
		}
		if err := res.Release(context.Background()); err != nil { // so that slots, which are left out, never deny
			return err
		}
		decided(r, res)
	}
	return nil
}
