package oncall

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/inspect"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Rules are what a limiter has in force for each key. They don't change: ask
// [RulesOf] again after a change. Keys are as stores have them.
type Rules struct {
	Limiter *core.Limiter
	Plan    string // whose limits Limiter has; "": the policy's own

	limits    []core.Limit
	overrides map[string]override
	blocked   map[string]string // by key: what is said of the block
	plans     []*Rules          // of the policy's plans, in the order of their names
}

// override is the limits that a key has of its own.
type override struct {
	limits []core.Limit
	owner  string // who set them, in words
}

// Operator is who has set exceptions, if no name is known. The policy has
// overrides and blocks too.
const Operator = "an operator"

const policy = "the policy"

// RulesOf returns what l has in force.
func RulesOf(l *core.Limiter) *Rules {
	p, e := l.Policy(), l.Exceptions()
	r := &Rules{Limiter: l, limits: p.Limits, overrides: make(map[string]override), blocked: make(map[string]string)}
	for key, limits := range p.Overrides {
		r.overrides[store.Key(key)] = override{limits, policy}
	}
	for _, key := range p.Blocked {
		r.blocked[store.Key(key)] = Blocked(policy)
	}
	for key, limits := range e.Overrides { // they come after the policy's, which they are merged with
		r.overrides[key] = override{slices.Concat(r.overrides[key].limits, limits), About(e.OverrideNotes[key])}
	}
	for _, key := range e.Blocked {
		r.blocked[key] = Blocked(Operator)
		if by := e.BlockNotes[key]; by != (store.ExceptionNote{}) {
			r.blocked[key] += " (" + About(by) + ")"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Plans)) {
		if of, err := l.WithPlan(name); err == nil { // else a new policy has come since
			r.plans = append(r.plans, &Rules{Limiter: of, Plan: name, limits: p.Plans[name], overrides: r.overrides, blocked: r.blocked})
		}
	}
	return r
}

// For returns the rules of a plan, or nil if the policy lacks it.
func (r *Rules) For(plan string) *Rules {
	i := slices.IndexFunc(r.plans, func(of *Rules) bool { return of.Plan == plan })
	if i < 0 {
		return nil
	}
	return r.plans[i]
}

// HasPlans reports whether the policy has plans.
func (r *Rules) HasPlans() bool { return len(r.plans) > 0 }

// Last returns the rules by which a key was last decided, the policy's own or
// those of a plan, and what the store keeps of the key under these. A store does
// not know a client's plan, so they are those whose limits are most like what
// the last decision wrote. It costs a call, and one for each plan. Of a store
// that does not show what it keeps it returns r.
func (r *Rules) Last(ctx context.Context, key string) (last *Rules, found inspect.Bucket, err error) {
	fewest := 0
	for i, of := range append([]*Rules{r}, r.plans...) {
		stored, err := inspect.Key(ctx, of.Limiter, key)
		if errors.Is(err, errors.ErrUnsupported) {
			return r, stored, nil
		} else if err != nil {
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

// Differs says how limits that wrote what a store keeps differ from those of
// the policy, or "". It is right after a change of the policy, an override or a
// deployment, and otherwise a sign of two definitions.
func Differs(stored inspect.Bucket) string {
	for _, l := range stored.Limits {
		switch {
		case l.Changed && l.Capacity != l.Limit.Capacity:
			return l.Limit.Name + " was last used with a capacity of " + Count(l.Capacity)
		case l.Changed:
			return l.Limit.Name + " was last used with another rate"
		}
	}
	if stored.Newest > 0 {
		return "the key was last used with " + Some(int64(stored.Newest), "other limit")
	}
	return ""
}

// Owner returns who gave a key limits of its own, in words, or "".
func (r *Rules) Owner(key string) string { return r.overrides[key].owner }

// Blocked is what is said of a key that somebody blocks, and "" of any other.
func (r *Rules) Blocked(key string) string { return r.blocked[key] }

// Count returns how many keys have limits of their own, and how many are
// blocked, by the policy or by operators.
func (r *Rules) Count() (overrides, blocked int) { return len(r.overrides), len(r.blocked) }

// Request returns what a request commonly takes of a key: one of each unit that
// the key's limits count.
func (r *Rules) Request(key string) core.Units {
	units := core.Units{core.Requests: 0}
	for _, limit := range slices.Concat(r.overrides[key].limits, r.limits) {
		if limit.Times == 0 { // else it multiplies one of the others
			units[Unit(limit)] = 1
		}
	}
	return units
}
