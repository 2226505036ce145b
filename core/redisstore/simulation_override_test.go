package redisstore_test

import (
	"errors"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Operations that change limits: SetPolicy, with another list for all keys or
// an override for the simulation's key.

// mark marks of which kinds an operation by h is in addition.
func (pl *player) mark(h *handle) {
	if slices.ContainsFunc(pl.procs, func(other *process) bool { return other.base.list != h.list }) {
		pl.marked = append(pl.marked, isVersion)
	}
	if h.list < 0 {
		pl.marked = append(pl.marked, isOverride)
	}
	if h.p.exception > 0 {
		pl.marked = append(pl.marked, isException)
	}
	if slices.ContainsFunc(h.rules, func(x limitRule) bool { return x.calendar != nil }) {
		pl.marked = append(pl.marked, isCalendar)
	}
}

// setPolicy gives p a policy of a list and an override.
func (pl *player) setPolicy(p *process, list, override int) error {
	pl.note("%28s p%d.SetPolicy(list %d, override by list %d)", pl.at(), p.id, list, override-1)
	pl.count++
	err := p.base.SetPolicy(pl.policy(list, override))
	if mistake := (*core.ConfigError)(nil); errors.As(err, &mistake) && mistake.Code() == "RL117" {
		return nil // requests took a unit that no limit of the list counts: the limits stay as they are
	}
	if err != nil {
		return broken("an error", "SetPolicy: %v", err)
	}
	p.list, p.override = list, override
	p.base.setRules(list, override)
	return nil
}

// setOverride gives the key other limits of its own, or takes them away. What
// was used stays used.
func (pl *player) setOverride(p *process, override int) error {
	return pl.changeLimits(p, func() error { return pl.setPolicy(p, p.list, override) })
}

// changeLimits calls change, which changes the key's limits in p. What was used
// stays used.
func (pl *player) changeLimits(p *process, change func() error) error {
	before, err := pl.peek(p.base)
	if err != nil {
		return err
	}
	was := p.base.rules
	if err := change(); err != nil {
		return err
	}
	after, err := pl.peek(p.base)
	if err != nil {
		return err
	}
	for i := range was {
		for j := range p.base.rules {
			a, b := &was[i], &p.base.rules[j]
			if a.name != b.name || !pl.onlyCapacity(a, b) {
				continue
			}
			had, has := before.Limits()[i].Remaining, after.Limits()[j].Remaining
			// Nobody knows here how much was used at the last write. If that is
			// more than a lower capacity, the bucket has refilled from nothing
			// since.
			least := max(0, b.capacity-(a.capacity-had))
			if most := max(least, min(had, b.capacity)); has < least || has > most {
				return broken("override", "%q had %d of %d, and has %d of %d; want %d to %d", a.name, had, a.capacity, has, b.capacity, least, most)
			}
		}
	}
	return nil
}

// onlyCapacity reports whether b differs from a in its capacity only, and
// nothing but a was used on the bucket, so that the change shows: tokens that
// are owed, reserved or on lease do not.
func (pl *player) onlyCapacity(a, b *limitRule) bool {
	tl := pl.timelines[a.name]
	same := a.sameSteps(b) && a.num == b.num && a.den == b.den
	return same && tl != nil && !pl.leases && pl.charged == 0 && len(pl.reserved) == 0 && len(pl.stepsBack) == 0 &&
		!slices.ContainsFunc(tl.uses, func(u inUse) bool { return u.rule != *a })
}
