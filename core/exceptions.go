package core

import (
	"slices"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

// Exceptions are limits and blocks of single keys that stand beside a policy, such as those that operators set in Redis while services
// run. An override here and one of the policy merge: both
// replace the limits that they name, and this one comes last. Blocked comes before all. Their keys are [StoredKey] of a client's key; one of more
// than 128 bytes is replaced by that.
type Exceptions struct {
	// Overrides are other limits for some keys, as those of [Policy].
	Overrides map[string][]Limit

	// Blocked are keys whose requests are denied, as those of [Policy]. A blocked key may have an override too, for the time after the block.
	Blocked []string
}

// clone returns a copy of e with keys as stores have them, in an order of its own.
func (e *Exceptions) clone() *Exceptions {
	c := &Exceptions{Blocked: slices.Clone(e.Blocked)}
	for i, key := range c.Blocked {
		c.Blocked[i] = shortKey(key)
	}
	slices.Sort(c.Blocked)
	c.Blocked = slices.Compact(c.Blocked)
	if e.Overrides != nil {
		c.Overrides = make(map[string][]Limit, len(e.Overrides))
	}
	for key, limits := range e.Overrides {
		c.Overrides[shortKey(key)] = slices.Clone(limits)
	}
	return c
}

// mistakes returns what is wrong with e.
func (e *Exceptions) mistakes(of limitLists) (errs []error) {
	errs = of.overrideMistakes("Exceptions.Overrides", e.Overrides)
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
