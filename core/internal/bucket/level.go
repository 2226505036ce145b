package bucket

import (
	"math/bits"
	"slices"
)

// Level is what a limit's bucket holds at an instant.
type Level struct {
	Units int64 // tokens × Unit; below 0 when tokens were promised ahead
	At    int64 // µs since 1970: the last step that is counted; in the Aligned mode the last refill
}

// steppedAt is the step from which l refills. Aligned steps are found on the clock at each refill, so a limit may
// change its mode and no time counts twice.
func (r *Rate) steppedAt(l Level) int64 {
	switch {
	case !r.Aligned:
		return l.At
	case r.Calendar != nil:
		return r.Calendar.At(l.At).Start
	}
	return floorTo(l.At, r.Step)
}

// stepsSince is how many steps end after an instant, which is not ahead of now, and until now. last is what becomes of
// Level.At by them.
func (r *Rate) stepsSince(at, now int64) (steps, last int64) {
	switch {
	case !r.Aligned:
		steps = now - at
		if r.Step > 1 { // it is mostly 1, and a division costs as much as all else here
			steps /= r.Step
		}
		return steps, at + steps*r.Step
	case r.Calendar != nil:
		return r.Calendar.Number(now) - r.Calendar.Number(at), now
	}
	return (now - floorTo(at, r.Step)) / r.Step, now
}

// refill brings l, which is not ahead of now, up to now in a bucket of which `out` tokens are held. Whole steps count,
// and l.At moves on by just those. A full bucket is as one that was never used: its steps begin with its next use.
func (r *Rate) refill(l Level, out, now int64) Level {
	steps, at := r.stepsSince(l.At, now)
	l.At = at
	room := r.Full
	if out > 0 {
		room = r.room(out)
	}
	// Lua's doubles don't wrap around. Here a product above 64 bits is more than any bucket lacks.
	if high, gained := bits.Mul64(uint64(steps), uint64(r.gainTo(l, out))); l.Units < room && high == 0 && gained < uint64(room-l.Units) {
		l.Units += int64(gained)
	} else {
		if l.Units = room; room == r.Full {
			l.At = now
		}
	}
	return l
}

// room is how high the level may rise while so many tokens are held. It may be below 0, as a level may.
func (r *Rate) room(held int64) int64 {
	if held > (r.Full+r.deepest)/r.Unit {
		return -r.deepest
	}
	return r.Full - held*r.Unit
}

// gainTo is what a step brings to l: no more than what fills the bucket, also when a debt is paid for which no tokens
// are held any more.
func (r *Rate) gainTo(l Level, out int64) int64 {
	if r.Gain > r.Full && l.Units < 0 && -l.Units/r.Unit >= out && -l.Units > out*r.Unit {
		return r.Full
	}
	return r.Gain
}

// wait is how many µs after now a refilled l has `need` units, if there is room for them.
func (r *Rate) wait(l Level, need, out, now int64) int64 {
	if l.Units >= need {
		return 0
	}
	gain := r.gainTo(l, out)
	steps := (need - l.Units + gain - 1) / gain
	switch {
	case steps > r.longest:
		return Forever
	case r.Calendar != nil:
		return min(Forever, r.Calendar.Start(r.Calendar.Number(l.At)+steps)-now)
	}
	return steps*r.Step - (now - r.steppedAt(l))
}

// owing is what a level of so many units becomes if n tokens are taken from it, whether or not they are there. A debt
// ends at the deepest: what is beyond it is forgiven.
func (r *Rate) owing(units, n int64) int64 {
	if n > (r.deepest+units)/r.Unit {
		return -r.deepest
	}
	return units - n*r.Unit
}

// inlineLevels is how many levels need no allocation: a policy rarely has more limits.
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
