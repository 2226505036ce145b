package oncall

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/inspect"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Rules are what a limiter has in force for each key. They don't change: ask
// [RulesOf] again after a change.
type Rules struct {
	Limiter *core.Limiter
	Plan    string // whose limits Limiter has; "": the policy's own
	Chosen  bool   // somebody said by which plan to decide

	limits []core.Limit
	own    map[string]own  // by key, in its stored form
	ended  map[string]bool // keys whose overrides have ended, and may have decided them last
	plans  []*Rules        // of the policy's plans, in the order of their names
}

type own struct {
	overrides []override // the one that comes first in front
	owner     string     // who gave the first
	blocker   string     // who blocks it: an operator, or else the policy
	says      string     // what is said of the block
}

type override struct {
	by     string // the policy, or what is said of an operator's
	limits []core.Limit
}

// Operator is who has set exceptions. The policy has overrides and blocks too.
const (
	Operator = "an operator"
	policy   = "the policy"
)

// RulesOf returns what l has in force. ended are keys, as stores have them,
// whose overrides have ended.
func RulesOf(l *core.Limiter, ended ...string) *Rules {
	p, e := l.Policy(), l.Exceptions()
	r := &Rules{Limiter: l, limits: p.Limits, own: make(map[string]own), ended: make(map[string]bool)}
	for _, key := range ended {
		r.ended[key] = true
	}
	note := func(key string, change func(*own)) {
		o := r.own[key]
		change(&o)
		r.own[key] = o
	}
	for key, limits := range p.Overrides {
		note(store.Key(key), func(o *own) { o.overrides, o.owner = []override{{policy, limits}}, policy })
	}
	for _, key := range p.Blocked {
		note(store.Key(key), func(o *own) { o.blocker, o.says = policy, Blocked(policy) })
	}
	for key, limits := range e.Overrides { // they come before all that the policy says
		note(key, func(o *own) {
			o.overrides, o.owner = append([]override{{About(e.OverrideNotes[key]), limits}}, o.overrides...), Operator
		})
	}
	for _, key := range e.Blocked {
		note(key, func(o *own) {
			o.blocker, o.says = Operator, Blocked(Operator)
			if by := e.BlockNotes[key]; by != (store.ExceptionNote{}) {
				o.says += " (" + About(by) + ")"
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(p.Plans)) {
		if of, err := l.WithPlan(name); err == nil { // else a new policy has come since
			r.plans = append(r.plans, &Rules{Limiter: of, Plan: name, limits: p.Plans[name], own: r.own, ended: r.ended})
		}
	}
	return r
}

// For returns the rules of a plan that somebody has chosen, r for "", which
// nobody has, and nil for one that the policy lacks.
func (r *Rules) For(plan string) *Rules {
	if plan == "" {
		return r
	}
	for _, of := range r.plans {
		if of.Plan == plan {
			chosen := *of
			chosen.Chosen = true
			return &chosen
		}
	}
	return nil
}

// HasPlans reports whether the policy has plans, so that Last may return the
// rules of one.
func (r *Rules) HasPlans() bool { return r.Plan != "" || len(r.plans) > 0 }

// Last returns the rules by which a key was last decided, the policy's own or
// those of a plan, and what the store keeps of the key under these. Redis does
// not know a customer's plan, so they are those whose limits the last decision
// has written. It costs a call, and one for each plan of a key that the
// policy's own limits did not write. Of a store that does not show what it
// keeps it returns r.
func (r *Rules) Last(ctx context.Context, key string) (*Rules, inspect.Bucket, error) {
	last, found, fewest := r, inspect.Bucket{}, 0
	for i, of := range append([]*Rules{r}, r.plans...) {
		stored, err := inspect.Key(ctx, of.Limiter, key)
		if errors.Is(err, errors.ErrUnsupported) {
			return r, stored, nil
		} else if err != nil {
			return r, stored, err
		}
		n := of.strange(key, stored)
		if i == 0 || n < fewest {
			last, found, fewest = of, stored, n
		}
		if n == 0 {
			break
		}
	}
	return last, found, nil
}

// strange is how much speaks against r as what a key was last decided by. A
// decision writes all limits of its plan: most speaks against r a limit that is
// missing, one that another definition wrote, and one that r lacks and that was
// written last; then one that r had before an override, and one that was
// written before others; and least one that r lacks.
func (r *Rules) strange(key string, stored inspect.Bucket) int {
	if stored.Written.IsZero() {
		return 0
	}
	const most, more = 1 << 20, 1 << 10
	n := stored.Others + most*(stored.Lacking+stored.Newest)
	for _, s := range stored.Limits {
		if r.foreign(key, s, stored) {
			n += most
		} else if s.Changed || s.Written.Before(stored.Written) {
			n += more
		}
	}
	return n
}

// Touched reports whether an operator has set an override of a key, which may
// have ended. Of several only the newest is known, and any of them may have
// decided the key last.
func (r *Rules) Touched(key string) bool { return r.ended[key] || r.Owner(key) == Operator }

// Foreign reports whether no definition that r has or had for a key wrote a
// limit, one of what the store keeps.
func (r *Rules) Foreign(key string, s inspect.Limit, stored inspect.Bucket) bool {
	return r.foreign(key, s, stored) && !r.Touched(key)
}

// foreign reports whether no definition that r has for a key wrote a limit. An
// override may be newer than the key's last request: then what the key has
// without it wrote the limit.
func (r *Rules) foreign(key string, s inspect.Limit, stored inspect.Bucket) bool {
	overrides, before := r.own[key].overrides, int64(0)
	if !s.Changed || len(overrides) == 0 {
		return s.Changed
	}
	for _, l := range r.limits {
		if l.Name == s.Limit.Name || l.Name == "" {
			before = l.Capacity
		}
	}
	added := before == 0 // by an override: another plan may have written the limit long ago
	for i := len(overrides) - 1; i >= 0 && before != s.Capacity; i-- {
		if l, ok := overrides[i].of(s.Limit, i == 0); ok && l.Times != 0 {
			before = int64(float64(before) * l.Times)
		} else if ok {
			before = l.Capacity
		}
	}
	return before != s.Capacity && (!added || s.Written.Equal(stored.Written))
}

// Doubt is why nothing can be said of a key: what the store keeps of it is of
// no definition that r has. what is said to lack it, such as this file. It is
// "" if there is no doubt, or somebody has chosen the plan.
func (r *Rules) Doubt(key string, stored inspect.Bucket, what string) string {
	if r.Chosen || stored.Written.IsZero() {
		return ""
	}
	strange := stored.Newest > 0 || stored.Lacking > 0 && r.Owner(key) != Operator // who may add limits
	for _, s := range stored.Limits {
		if strange = strange || r.foreign(key, s, stored); !r.Foreign(key, s, stored) {
			continue
		}
		by := "a capacity of " + Count(s.Capacity)
		if s.Capacity == s.Limit.Capacity {
			by = "another rate"
		}
		return "not known: " + s.Limit.Name + " was last decided with " + by + ", which " + what + " does not have"
	}
	switch {
	case r.Touched(key) && strange && r.HasPlans():
		return "not known: an override of before decided last, and the store does not know which plan the key has: -plan says it"
	case !r.Touched(key) && stored.Newest > 0:
		return "not known: it was last decided with " + Some(int64(stored.Newest), "limit") + " that " + what + " does not have"
	}
	return ""
}

// Owner returns who gave a key limits of its own, the policy or an operator, or
// "" if nobody did.
func (r *Rules) Owner(key string) string { return r.own[key].owner }

// From returns where a limit of a key comes from, in words: an override or a
// plan, or "" for the policy's own.
func (r *Rules) From(key string, limit core.Limit) string {
	var from []string
	for _, o := range r.own[key].overrides {
		switch l, ok := o.of(limit, from == nil); {
		case ok && l.Times == 0:
			return strings.Join(append([]string{"an override of " + o.by}, from...), ", ")
		case ok:
			from = append([]string{l.WithName("").String() + " by " + o.by}, from...)
		}
	}
	if r.Plan != "" {
		from = append([]string{"plan " + strconv.Quote(r.Plan)}, from...)
	}
	return strings.Join(from, ", ")
}

// of returns the limit of o that replaces or multiplies one. last says that no
// other override comes after o: then a limit without a name is found by what it
// made.
func (o override) of(limit core.Limit, last bool) (core.Limit, bool) {
	for _, same := range []func(core.Limit) bool{
		func(l core.Limit) bool { return l.Name == limit.Name },
		func(l core.Limit) bool {
			return l.Name == "" && (l.Times != 0 || last && l.WithName(limit.Name).String() == limit.String())
		},
	} {
		if i := slices.IndexFunc(o.limits, same); i >= 0 {
			return o.limits[i], true
		}
	}
	return core.Limit{}, false
}

// Blocker returns who blocks a key, the policy or an operator, or "" if nobody
// does.
func (r *Rules) Blocker(key string) string { return r.own[key].blocker }

// Blocked is what is said of a key that somebody blocks, and "" of any other.
func (r *Rules) Blocked(key string) string { return r.own[key].says }

// Count returns how many keys have limits of their own, and how many are
// blocked, by the policy or by operators.
func (r *Rules) Count() (overrides, blocked int) {
	for key, o := range r.own {
		if len(o.overrides) > 0 {
			overrides++
		}
		if r.Blocker(key) != "" {
			blocked++
		}
	}
	return overrides, blocked
}

// Request returns what a request commonly takes of a key: one of each unit that
// the key's limits count.
func (r *Rules) Request(key string) core.Units {
	units := core.Units{core.Requests: 0}
	for _, o := range append(slices.Clone(r.own[key].overrides), override{limits: r.limits}) { // which merge
		for _, limit := range o.limits {
			if limit.Times == 0 {
				units[Unit(limit)] = 1
			}
		}
	}
	return units
}
