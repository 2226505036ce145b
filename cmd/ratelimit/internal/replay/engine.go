package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// engine decides by one policy at the times of a log. It has one goroutine.
type engine struct {
	limiter *core.Limiter
	now     time.Time
	units   []core.Units
}

// newEngine returns an engine for a policy that Playable has returned.
//
// Keys are replayed one after the other, and no two share a bucket. So the store needs room for one, and each key finds a clock that begins
// anew.
func newEngine(t *Traffic, p core.Policy) (*engine, error) {
	e := &engine{units: t.units}
	store := core.NewMemoryStore(core.WithMaxKeys(1), core.WithClock(func() time.Time { return e.now }))
	limiter, err := core.NewLimiter(store, p, core.WithLogger(slog.New(slog.DiscardHandler)))
	e.limiter = limiter
	return e, err
}

// decide decides one event.
func (e *engine) decide(key string, ev event) (core.Result, error) {
	e.now = time.UnixMicro(ev.at)
	if ev.units >= 0 {
		return e.limiter.AllowUnits(context.Background(), key, e.units[ev.units])
	}
	return e.limiter.AllowN(context.Background(), key, ev.cost)
}

// denies reports whether the engine denies any of a key's events.
func (e *engine) denies(key string, events []event) (bool, error) {
	for _, ev := range events {
		res, err := e.decide(key, ev)
		if err != nil || !res.Allowed {
			return true, err
		}
	}
	return false, nil
}

// Playable returns p as a log can be replayed through it, and what is left out, in words. A policy in shadow mode decides as if it were
// enforced. Slots are left out, because a log has no requests under way; so is for how long estimates are held, because a log has what was
// used. A limit of a unit that no field has is left out too.
func (t *Traffic) Playable(p core.Policy) (_ core.Policy, notes []string, err error) {
	if p.Shadow {
		p.Shadow, notes = false, append(notes, "it is in shadow mode: the figures are those of the enforced policy")
	}
	named, err := WithNames(p)
	if err != nil {
		return p, notes, err
	}
	left := make(map[string]bool)
	keep := func(limits []core.Limit) (kept []core.Limit) {
		for _, l := range limits {
			l.MaxHold = 0
			counted := l.Unit == "" || l.Unit == core.Requests || slices.Contains(t.unitsNamed, l.Unit)
			switch {
			case l.Mode == core.Concurrent:
				left[fmt.Sprintf("%s counts requests under way, which a log does not tell: it is left out", quoted(l.Name))] = true
			case !counted:
				left[fmt.Sprintf("%s counts %s, and no field has them: it is left out (name the field by -units %s=FIELD)", quoted(l.Name), l.Unit, l.Unit)] = true
			default:
				kept = append(kept, l)
			}
		}
		return kept
	}
	p.Limits = keep(named.Limits)
	overrides := make(map[string][]core.Limit)
	for key, limits := range named.Overrides {
		if overrides[key] = keep(limits); len(overrides[key]) == 0 {
			return p, notes, errors.New("an override has no limit that a log can be replayed through")
		}
	}
	p.Overrides, p.Plans = overrides, make(map[string][]core.Limit)
	for name, limits := range named.Plans { // overrides may name limits that only plans have
		if limits = keep(limits); len(limits) > 0 {
			p.Plans[name] = limits
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

// checkUnits returns an error if the log takes a unit that no limit of p counts: the limiter would refuse each request.
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

// WithNames returns p with the names that the library gives limits without one. Its overrides are all limits that their keys have.
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
