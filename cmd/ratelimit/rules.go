package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// rules are what a limiter has in force for each key. They don't change: ask
// [rulesOf] again after a change. Keys are as stores have them.
type rules struct {
	limiter *core.Limiter
	plan    string // whose limits limiter has; "": the policy's own

	limits    []core.Limit
	overrides map[string][]core.Limit
	blocked   map[string]string // by key: what is said of the block
	plans     []*rules          // of the policy's plans, in the order of their names
}

// operator is who has set an override or a block, if no name is known.
const operator = "an operator"

// rulesOf returns what l has in force.
func rulesOf(l *core.Limiter) *rules {
	p, e := l.Policy(), l.Exceptions()
	r := &rules{limiter: l, limits: p.Limits, overrides: make(map[string][]core.Limit), blocked: make(map[string]string)}
	for key, limits := range p.Overrides {
		r.overrides[store.Key(key)] = limits
	}
	for _, key := range p.Blocked {
		r.blocked[store.Key(key)] = saysBlocked("the policy")
	}
	for key, limits := range e.Overrides { // they come after the policy's, which they are merged with
		r.overrides[key] = slices.Concat(r.overrides[key], limits)
	}
	for _, key := range e.Blocked {
		r.blocked[key] = saysBlocked(operator)
		if by := e.BlockNotes[key]; by != (store.ExceptionNote{}) {
			r.blocked[key] += " (" + about(by) + ")"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Plans)) {
		if of, err := l.WithPlan(name); err == nil { // else a new policy has come since
			r.plans = append(r.plans, &rules{limiter: of, plan: name, limits: p.Plans[name], overrides: r.overrides, blocked: r.blocked})
		}
	}
	return r
}

// ofPlan returns the rules of a plan, or nil if the policy lacks it.
func (r *rules) ofPlan(plan string) *rules {
	i := slices.IndexFunc(r.plans, func(of *rules) bool { return of.plan == plan })
	if i < 0 {
		return nil
	}
	return r.plans[i]
}

// hasPlans reports whether the policy has plans.
func (r *rules) hasPlans() bool { return len(r.plans) > 0 }

// last returns the rules by which a key was last decided, the policy's own or
// those of a plan, and what the store keeps of the key under these. A store does
// not know a client's plan, so they are those whose limits are most like what
// the last decision wrote. It costs a call, and one for each plan.
func (r *rules) last(ctx context.Context, s *redisstore.Store, key string) (last *rules, found redisstore.BucketState, err error) {
	fewest := 0
	for i, of := range append([]*rules{r}, r.plans...) {
		stored, err := of.inspect(ctx, s, key)
		if err != nil {
			return r, stored, err
		}
		differences := stored.Lacking + stored.Newest
		for _, l := range stored.Limits {
			if l.Changed {
				differences++
			}
		}
		if i == 0 || differences < fewest {
			last, found, fewest = of, stored, differences
		}
		if stored.Written.IsZero() {
			break
		}
	}
	return last, found, nil
}

// inspect returns what a store keeps of a key, which is as stores have it.
func (r *rules) inspect(ctx context.Context, s *redisstore.Store, key string) (redisstore.BucketState, error) {
	return s.Inspect(ctx, r.limiter.Name(), key, r.limiter.Limits(key))
}

// differs says how limits that wrote what a store keeps differ from those of
// the policy, or "". It is right after a change of the policy, an override or a
// deployment, and otherwise a sign of two definitions.
func differs(stored redisstore.BucketState) string {
	for _, l := range stored.Limits {
		switch {
		case l.Changed && l.Capacity != l.Limit.Capacity:
			return l.Limit.Name + " was last used with a capacity of " + show.Count(l.Capacity)
		case l.Changed:
			return l.Limit.Name + " was last used with another rate"
		}
	}
	if stored.Newest > 0 {
		return "the key was last used with " + show.Some(int64(stored.Newest), "other limit")
	}
	return ""
}

// unitOf is what a limit counts.
func unitOf(l core.Limit) string { return cmp.Or(l.Unit, core.Requests) }

// about is who has set an exception, until when, and why.
func about(note store.ExceptionNote) string {
	text := show.Text(cmp.Or(note.By, operator))
	if !note.Until.IsZero() {
		text += " until " + instant(note.Until)
	}
	if note.Reason != "" {
		text += ": " + strconv.Quote(note.Reason)
	}
	return text
}

// instant is a time to the second, in UTC.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
