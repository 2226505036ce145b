package core

import (
	"maps"
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

	// OverrideNotes and BlockNotes say by key who has set an exception, until when and why, for people who read it. They decide nothing:
	// who calls SetExceptions ends exceptions.
	OverrideNotes, BlockNotes map[string]ExceptionNote
}

// ExceptionNote is what is known of an exception beside what it does.
type ExceptionNote struct {
	By     string    // who has set it; "": not known
	Reason string    // and why
	Until  time.Time // when it ends; zero: when it is removed
}

// Following is how a limiter learns of exceptions that are kept elsewhere, such as in Redis: see FollowExceptions of redisstore. Those in
// force are of Version. The zero Following is that of a limiter whose exceptions nobody has read.
type Following struct {
	Since   time.Time // when somebody began to read them again and again; zero: nobody does
	Read    time.Time // when somebody last read them, or learnt that they have not changed; zero: never
	Version int64     // grows with each change: about when it was made, in microseconds since 1970 by the clock of Redis; 0: there was none
}

// Age is how long ago exceptions were read at an instant, or, if they were not, since when somebody follows them. It reports whether
// anybody does.
func (f Following) Age(now time.Time) (age time.Duration, follows bool) {
	last := f.Since
	if f.Read.After(last) {
		last = f.Read
	}
	return max(0, now.Sub(last)), !f.Since.IsZero()
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
	c.OverrideNotes, c.BlockNotes = notesByStoredKey(e.OverrideNotes), notesByStoredKey(e.BlockNotes)
	return c
}

func notesByStoredKey(notes map[string]ExceptionNote) map[string]ExceptionNote {
	if len(notes) == 0 {
		return nil
	}
	c := make(map[string]ExceptionNote, len(notes))
	for key, note := range notes {
		c[shortKey(key)] = note
	}
	return c
}

// sameNotes reports whether e and next say the same of their exceptions. Nil is no exceptions.
func (e *Exceptions) sameNotes(next *Exceptions) bool {
	if e == nil {
		e = &Exceptions{}
	}
	return maps.Equal(e.OverrideNotes, next.OverrideNotes) && maps.Equal(e.BlockNotes, next.BlockNotes)
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
