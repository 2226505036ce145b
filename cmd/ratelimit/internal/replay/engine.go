package replay

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// engine decides by one policy at the times of a log. It has one goroutine.
type engine struct {
	limiters []*core.Limiter // by the index of a request's plan
	now      time.Time
	units    []core.Units
}

// newEngine returns an engine for a policy that Playable has returned.
//
// Keys are replayed one after the other, and no two share a bucket. So the
// store needs room for one, and each key finds a clock that begins anew.
func newEngine(t *Traffic, p view) (*engine, error) {
	e := &engine{units: t.units}
	store := core.NewMemoryStore(core.WithMaxKeys(1), core.WithClock(func() time.Time { return e.now }))
	store.Config().Logger = slog.New(slog.DiscardHandler) // the limiter's own would have each decision timed
	limiter, err := core.NewLimiter(store, p.Policy)
	if err != nil {
		return nil, err
	}
	for _, name := range t.plans {
		of, err := limiter.WithPlan(p.planOf(name))
		if err != nil {
			return nil, err
		}
		e.limiters = append(e.limiters, of)
	}
	return e, nil
}

// decide decides one event.
func (e *engine) decide(key string, ev event) (core.Result, error) {
	e.now = time.UnixMicro(ev.at)
	limiter := e.limiters[ev.plan]
	if ev.units >= 0 {
		return limiter.AllowUnits(context.Background(), key, e.units[ev.units])
	}
	return limiter.AllowN(context.Background(), key, ev.cost)
}

// denies reports whether the engine denies any of a key's events that p is of.
func (e *engine) denies(key string, events []event, p view) (bool, error) {
	for _, ev := range events {
		res, err := e.decide(key, ev)
		if err != nil || !res.Allowed && p.plans[ev.plan] {
			return true, err
		}
	}
	return false, nil
}

// Playable returns p as a log can be replayed through it, and what is left out,
// in words. A policy in shadow mode decides as if it were enforced. Slots are
// left out, because a log has no requests under way; so is for how long
// estimates are held, because a log has what was used. A limit of a unit that
// no field has is left out too.
func (t *Traffic) Playable(p core.Policy) (_ core.Policy, notes []string, err error) {
	if p.Shadow {
		p.Shadow, notes = false, append(notes, "it is in shadow mode: the figures are those of the enforced policy")
	}
	named, err := WithNames(p)
	if err != nil {
		return p, notes, err
	}
	left, gone := make(map[string]bool), make(map[string]bool) // notes, and names of limits
	keep := func(limits []core.Limit) (kept []core.Limit) {
		for _, l := range limits {
			l.MaxHold, gone[l.Name] = 0, true
			counted := l.Unit == "" || l.Unit == core.Requests || slices.Contains(t.unitsNamed, l.Unit)
			switch {
			case l.Mode == core.Concurrent:
				left[fmt.Sprintf("%s counts requests under way, which a log does not tell: it is left out", quoted(l.Name))] = true
			case !counted:
				left[fmt.Sprintf("%s counts %s, and no field has them: it is left out (name the field by -units %s=FIELD)", quoted(l.Name), l.Unit, l.Unit)] = true
			default:
				kept, gone[l.Name] = append(kept, l), false
			}
		}
		return kept
	}
	p.Limits = keep(named.Limits)
	overrides, plans := p.Overrides, named.Plans
	p.Overrides, p.Plans = make(map[string][]core.Limit), make(map[string][]core.Limit)
	for name, limits := range plans { // overrides may name limits that only plans have
		if limits = keep(limits); len(limits) > 0 {
			p.Plans[name] = limits
		} else if slices.Contains(t.plans, name) {
			return p, notes, fmt.Errorf("plan %s has no limit that a log can be replayed through", quoted(name))
		}
	}
	for key, limits := range overrides {
		limits = slices.DeleteFunc(namedAs(limits, named.Overrides[key]), func(l core.Limit) bool { return l.Times != 0 && gone[l.Name] })
		if limits = keep(limits); len(limits) > 0 {
			p.Overrides[key] = limits
		}
	}
	for note := range left {
		notes = append(notes, note)
	}
	slices.Sort(notes)
	if len(p.Limits) == 0 {
		return p, notes, fmt.Errorf("policy %s has no limit that a log can be replayed through: %s", quoted(p.Name), strings.Join(notes, "; "))
	}
	return p, notes, t.checkUnits(p)
}

// namedAs returns limits of an override, each with the name that it has among
// all limits of its key.
func namedAs(limits, all []core.Limit) []core.Limit {
	limits = slices.Clone(limits)
	for i, l := range limits {
		same := func(other core.Limit) bool { return other.WithName("").String() == l.String() }
		if n := slices.IndexFunc(all, same); l.Name == "" && l.Times == 0 && n >= 0 {
			limits[i].Name = all[n].Name
		}
	}
	return limits
}

// checkUnits returns an error if the log takes a unit that no limit of p
// counts: the limiter would refuse each request.
func (t *Traffic) checkUnits(p core.Policy) error {
	for _, unit := range t.unitsNamed {
		if !slices.ContainsFunc(p.Limits, func(l core.Limit) bool { return l.Unit == unit }) {
			return fmt.Errorf("-units %s: no limit of policy %s counts it", unit, quoted(p.Name))
		}
	}
	if len(t.unitsNamed) > 0 && t.hasCost && !slices.ContainsFunc(p.Limits, func(l core.Limit) bool { return l.Unit == "" || l.Unit == core.Requests }) {
		return fmt.Errorf("-cost: no limit of policy %s counts requests", quoted(p.Name))
	}
	return nil
}

// WithNames returns p with the names that the library gives limits without one.
// Its overrides are all limits that their keys have.
func WithNames(p core.Policy) (core.Policy, error) {
	l, err := core.NewLimiter(core.NewMemoryStore(), p)
	if err != nil {
		return p, err
	}
	named := func(l *core.Limiter, key string) (limits []core.Limit) {
		res, _ := l.Peek(context.Background(), key) // a MemoryStore answers
		for _, of := range res.Limits() {
			limits = append(limits, of.Limit)
		}
		return limits
	}
	const nobody = "\x00" // has no override
	p.Limits = named(l, nobody)
	given := p
	p.Overrides, p.Plans = make(map[string][]core.Limit), make(map[string][]core.Limit)
	for key := range given.Overrides {
		p.Overrides[key] = named(l, key)
	}
	for name := range given.Plans {
		p.Plans[name] = named(core.Must(l.WithPlan(name)), nobody)
	}
	return p, nil
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }
