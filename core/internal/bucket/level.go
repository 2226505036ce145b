package bucket

import (
	"math/bits"
	"slices"
)

// Level is how full a limit's bucket is at an instant.
type Level struct {
	Units int64 // tokens × Unit; below 0: a debt, of reservations or debits
	At    int64 // µs since 1970: the last step that has counted; in the Aligned mode the instant of the last refill
}

// steppedAt is the last step that has counted for l. In the Aligned mode it
// follows from the clock, and l.At is later: should the limit change its mode,
// no time before l.At counts again.
func (r *Rate) steppedAt(l Level) int64 {
	switch {
	case !r.Aligned:
		return l.At
	case r.Calendar != nil:
		return r.Calendar.At(l.At).Start
	}
	return floorTo(l.At, r.Step)
}

// stepsSince is how many steps a level at the instant at, which is not after
// now, gains until now, and last is its At after them.
func (r *Rate) stepsSince(at, now int64) (steps, last int64) {
	switch {
	case r.foreign:
		return 0, now
	case !r.Aligned:
		steps = now - at
		if r.Step > 1 { // usually it is 1, and the division costs as much as the rest of refill
			steps /= r.Step
		}
		return steps, at + steps*r.Step
	case r.Calendar != nil:
		return r.Calendar.Number(now) - r.Calendar.Number(at), now
	}
	return (now - floorTo(at, r.Step)) / r.Step, now
}

// refill returns the level at now that follows from l, which is not after now,
// while held tokens are held. Only whole steps count, and l.At moves on by just
// those. The steps of a full bucket begin with its next use.
func (r *Rate) refill(l Level, held, now int64) Level {
	steps, at := r.stepsSince(l.At, now)
	l.At = at
	room := r.Full
	if held > 0 {
		room = r.room(held)
	}
	// A product that overflows 64 bits is more than any bucket lacks. Lua's
	// doubles don't overflow.
	if high, gained := bits.Mul64(uint64(steps), uint64(r.gainTo(l, held))); l.Units < room && high == 0 && gained < uint64(room-l.Units) {
		l.Units += int64(gained)
	} else {
		if l.Units = room; room == r.Full {
			l.At = now
		}
	}
	return l
}

// room is how high the level may rise while so many tokens are held: Full less
// their units, and at least the deepest debt.
func (r *Rate) room(held int64) int64 {
	if held > (r.Full+r.maxDebt)/r.Unit {
		return -r.maxDebt
	}
	return r.Full - held*r.Unit
}

// gainTo is what a step brings to the level l: Gain, but at most Full in a debt
// of more tokens than are held, which were used already: no window admits more
// than Full for each step (see MaxIn).
//
// Example: Capacity is 10, and 25 tokens come every minute. A debt of 30
// tokens, all used, is 20 after a minute, not 5.
func (r *Rate) gainTo(l Level, held int64) int64 {
	if r.Gain > r.Full && l.Units < 0 && -l.Units/r.Unit >= held && -l.Units > held*r.Unit {
		return r.Full
	}
	return r.Gain
}

// wait is how many µs after now a level has need units, while held tokens are
// held, if there is room for need. l must be refilled to now.
func (r *Rate) wait(l Level, need, held, now int64) int64 {
	if l.Units >= need {
		return 0
	}
	gain := r.gainTo(l, held)
	steps := (need - l.Units + gain - 1) / gain
	switch {
	case steps > r.maxSteps:
		return Forever
	case r.Calendar != nil:
		return min(Forever, r.Calendar.Start(r.Calendar.Number(l.At)+steps)-now)
	}
	return steps*r.Step - (now - r.steppedAt(l))
}

// debit is what a level of so many units becomes if n tokens are taken from it,
// whether or not they are there. What exceeds the deepest debt is forgiven.
func (r *Rate) debit(units, n int64) int64 {
	if n > (r.maxDebt+units)/r.Unit {
		return -r.maxDebt
	}
	return units - n*r.Unit
}

// inlineLevels is how many levels need no allocation: a policy rarely has more
// limits.
const inlineLevels = 4

// Levels is a list of levels that needs no allocation while it is short.
type Levels struct {
	few  [inlineLevels]Level
	many *[]Level // the others; a pointer, for levels are copied with every result
}

// Grow makes room for n levels.
func (l *Levels) Grow(n int) {
	if n > inlineLevels {
		many := make([]Level, n-inlineLevels)
		l.many = &many
	}
}

// At returns the i-th level, for reading and writing.
func (l *Levels) At(i int) *Level {
	if i < inlineLevels {
		return &l.few[i]
	}
	return &(*l.many)[i-inlineLevels]
}

// Inline reports whether a copy of l shares nothing with l.
func (l *Levels) Inline() bool { return l.many == nil }

// Unshare makes l, a copy, share nothing with the levels it was copied from.
func (l *Levels) Unshare() {
	if l.many != nil {
		many := slices.Clone(*l.many)
		l.many = &many
	}
}
