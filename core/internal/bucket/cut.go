package bucket

import "math"

// Cut is what a lower Capacity has cut: tokens that were used, and that the
// level does not count.
type Cut struct {
	Tokens float64 // above 0
	Base   int64   // units: what the level would be if nothing had been taken since. What comes back fills the level up to it first
}

// cutUnits is what is cut in units, to the nearest. It may be more than a
// bucket has. A product is converted before a sum, here and below: else some
// machines round only the sum, and Lua rounds both.
func (r *Rate) cutUnits(c Cut) float64 { return math.Floor(float64(c.Tokens*float64(r.Unit)) + 0.5) }

func (c *Cut) pay(r *Rate, units float64) {
	if c.Tokens = float64(r.cutUnits(*c)-units) / float64(r.Unit); c.Tokens < 0 {
		c.Tokens = 0
	}
}

// give adds n tokens that come back to a level, at most up to room. What was
// cut is paid first, but not what came to the level since.
func (r *Rate) give(level, n, room int64, c *Cut) int64 {
	if c == nil || c.Tokens <= 0 {
		return max(level, min(level+r.units(n), room))
	}
	units := float64(float64(n) * float64(r.Unit)) // may be more than an int64 has
	first := min(units, float64(max(0, min(c.Base, room)-level)))
	paid := min(units-first, r.cutUnits(*c))
	c.pay(r, paid)
	rest := float64(level) + units - paid
	if rest > float64(room) { // there is no room for the rest
		c.pay(r, rest-float64(room))
	}
	return max(level, int64(min(rest, float64(room))))
}

// refillCut is refill of a level from which something is cut. What refills
// beyond the room pays that. A full bucket's steps go on until all is paid.
func (r *Rate) refillCut(l Level, held, now int64, c *Cut) Level {
	if c == nil || c.Tokens <= 0 {
		return r.refill(l, held, now)
	}
	steps, at := r.stepsSince(l.At, now)
	gained, room := r.gained(l, held, steps), r.room(held)
	c.Base = min(c.Base+gained, r.Full)
	l.At = at
	if l.Units += gained; l.Units > room {
		c.pay(r, float64(l.Units-room))
		if l.Units = room; room == r.Full && c.Tokens <= 0 {
			l.At = now
		}
	}
	return l
}

// gained is what so many steps bring to the level l: as gainTo says of each, in
// the debt and after it. So it does not matter whether the level is looked at in
// between. It is at most so much that a level and it stay below 2^53.
func (r *Rate) gained(l Level, held, steps int64) int64 {
	inDebt := int64(0)
	if r.gainTo(l, held) < r.Gain {
		inDebt = min(steps, (-l.Units-held*r.Unit+r.Full-1)/r.Full)
	}
	return min(inDebt*r.Full+mulDiv(steps-inDebt, r.Gain, 1), Forever-(maxUnits+1))
}
