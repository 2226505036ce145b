package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Exceptions are limits and blocks of single keys that stand beside a policy, such as those that operators set in Redis while services
// run. What they say of a key comes before the policy's Overrides and Blocked. Their keys are [StoredKey] of a client's key.
type Exceptions struct {
	// Overrides are other limits for some keys, as those of [Policy].
	Overrides map[string][]Limit

	// Blocked are keys whose requests are denied, as those of [Policy]. A blocked key may have an override too, for the time after the block.
	Blocked []string
}

// SetExceptions replaces the exceptions from the next decision on, also of limiters that [Limiter.WithLimits] has returned. They stay
// when SetPolicy changes the policy. If the error is not nil, nothing has changed: it reports every mistake. Changes are logged and
// passed to observers as those of SetPolicy, and counted only, because keys can be personal data.
func (l *Limiter) SetExceptions(e Exceptions) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	now := l.current()
	given := e.clone()
	if errs := given.mistakes(now.policy.Name); len(errs) > 0 {
		return fmt.Errorf("ratelimit: exceptions of policy %q: %w", now.policy.Name, errors.Join(errs...))
	}
	changes := now.exceptions.changesTo(given)
	if len(changes) == 0 {
		return nil
	}
	next := *now
	next.except(given)
	l.exceptions.Store(given)
	l.rules.Store(&next)
	l.watch.reportPolicy(next.policy, changes)
	return nil
}

// Exceptions returns what SetExceptions has set last.
func (l *Limiter) Exceptions() Exceptions {
	if e := l.current().exceptions; e != nil {
		return *e.clone()
	}
	return Exceptions{}
}

// current returns the rules in force. A limiter that WithLimits returned takes over here the exceptions that another limiter has set.
func (l *Limiter) current() *rules {
	now := l.rules.Load()
	for l.exceptions != nil {
		given := l.exceptions.Load()
		if given == now.exceptions {
			break
		}
		next := *now
		next.except(given)
		if l.rules.CompareAndSwap(now, &next) {
			return &next
		}
		now = l.rules.Load()
	}
	return now
}

// except sets the exceptions of r, which must be in nobody's hands yet. Nil are none.
func (r *rules) except(e *Exceptions) {
	r.exceptions, r.excepted = e, nil
	if e == nil {
		return
	}
	own := r.own.byStoredKey()
	r.excepted = r.keyPlans(e.Overrides, e.Blocked, func(key string) []Limit {
		if own := own[key]; own != nil {
			return own.plan.given
		}
		return r.policy.Limits
	})
}

// clone returns a copy of e, in an order of its own.
func (e *Exceptions) clone() *Exceptions {
	c := &Exceptions{Overrides: maps.Clone(e.Overrides), Blocked: slices.Clone(e.Blocked)}
	slices.Sort(c.Blocked)
	c.Blocked = slices.Compact(c.Blocked)
	for key, limits := range c.Overrides {
		c.Overrides[key] = slices.Clone(limits)
	}
	return c
}

// mistakes returns what is wrong with e.
func (e *Exceptions) mistakes(policy string) (errs []error) {
	for _, key := range slices.Sorted(maps.Keys(e.Overrides)) {
		errs = append(errs, limit.ListMistakes(policy, each(e.Overrides[key], Limit.plain), "Exceptions.Overrides."+printable.Clip(key, limit.MaxName))...)
		if key == "" {
			errs = append(errs, mistake.New("Exceptions.Overrides", key, "has an empty key, which no request can have"))
		}
	}
	if slices.Contains(e.Blocked, "") {
		errs = append(errs, mistake.New("Exceptions.Blocked", "", "has an empty key, which no request can have"))
	}
	return errs
}

// changesTo returns how next differs from e, in words. Nil are none.
func (e *Exceptions) changesTo(next *Exceptions) (changes []string) {
	if e == nil {
		e = &Exceptions{}
	}
	if text := overrideChanges(e.Overrides, next.Overrides); text != "" {
		changes = append(changes, "overrides beside the policy: "+text)
	}
	if text := blockChanges(e.Blocked, next.Blocked); text != "" {
		changes = append(changes, "blocked beside the policy: "+text)
	}
	return changes
}
