package core

import (
	"slices"
	"time"

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

	// Said is who set an override, by its key, for people who look at its limits. It decides nothing.
	Said map[string]Said
}

// Said is what is known of an exception beside what it does.
type Said struct {
	By     string    // who has set it
	Until  time.Time // when it ends; zero: not by itself
	Reason string
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
	if e.Said != nil {
		c.Said = make(map[string]Said, len(e.Said))
	}
	for key, said := range e.Said {
		c.Said[shortKey(key)] = said
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
