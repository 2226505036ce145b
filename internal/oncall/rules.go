package oncall

import "github.com/tokenbucket-go/ratelimit/core"

// Rules are what a limiter has in force for each key. They don't change: ask [RulesOf] again after a change.
type Rules struct {
	Limiter *core.Limiter

	limits []core.Limit
	own    map[string]own // by key, in its stored form
}

// own is what stands out about a key.
type own struct {
	limits   []core.Limit // nil: those of the policy
	by       string       // who gave it limits of its own, or ""
	listed   bool         // the policy blocks it
	operator bool         // an operator does
}

// Operator is who has set exceptions. The policy has overrides and blocks too.
const (
	Operator = "an operator"
	policy   = "the policy"
)

// RulesOf returns what l has in force.
func RulesOf(l *core.Limiter) *Rules {
	p, e := l.Policy(), l.Exceptions()
	r := &Rules{Limiter: l, limits: p.Limits, own: make(map[string]own)}
	note := func(key string, change func(*own)) {
		o := r.own[key]
		change(&o)
		r.own[key] = o
	}
	for key, limits := range p.Overrides {
		note(core.StoredKey(key), func(o *own) { o.limits, o.by = limits, policy })
	}
	for _, key := range p.Blocked {
		note(core.StoredKey(key), func(o *own) { o.listed = true })
	}
	for key, limits := range e.Overrides { // they come before all that the policy says
		note(key, func(o *own) { o.limits, o.by = limits, Operator })
	}
	for _, key := range e.Blocked {
		note(key, func(o *own) { o.operator = true })
	}
	return r
}

// Owner returns who gave a key limits of its own, the policy or an operator, or "" if nobody did.
func (r *Rules) Owner(key string) string { return r.own[key].by }

// Blocker returns who blocks a key, the policy or an operator, or "" if nobody does.
func (r *Rules) Blocker(key string) string {
	switch o := r.own[key]; {
	case o.operator:
		return Operator
	case o.listed && o.by != Operator:
		return policy
	}
	return ""
}

// Listed reports whether the policy blocks a key, also if an operator's override comes before that.
func (r *Rules) Listed(key string) bool { return r.own[key].listed }

// Request returns what a request commonly takes of a key: one of each unit that the key's limits count.
func (r *Rules) Request(key string) core.Units {
	limits := r.own[key].limits
	if limits == nil {
		limits = r.limits
	}
	units := core.Units{core.Requests: 0}
	for _, limit := range limits {
		units[Unit(limit)] = 1
	}
	return units
}
