package core

import (
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Exceptions are limits and blocks of single keys that stand beside a policy, such as those that operators set in Redis while services
// run. What they say of a key comes before the policy's Overrides and Blocked. Their keys are [StoredKey] of a client's key; one of more
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
