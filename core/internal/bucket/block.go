package bucket

import "slices"

// block is some holds that end one after another.
type block struct {
	holds  []hold // at least one, at most BlockSize
	tokens int64  // of all
	due    int64  // when the last of those that are reservations is due; 0: none is one
	cut    int64  // how many units the level has less than its room at the end of the last hold, if it had no room before
}

// BlockSize is the most holds in a block. A decision on n holds reads n/BlockSize blocks, and the holds of one or two.
const BlockSize = 64

// form is what cuts depend on, besides the holds.
type form struct {
	steps             uint16 // Rate.Steps
	unit, gain, phase int64  // phase: how long after a multiple of Step the steps begin
}

// form is that of blocks of a limit whose refilled level is l.
func (r *Rate) form(l Level) form {
	f := form{r.Steps, r.Unit, min(r.Gain, r.Full), 0} // a step can't bring more than fills the bucket: see gainTo
	if r.Step > 1 && !r.Aligned {
		f.phase = l.At - floorTo(l.At, r.Step)
	}
	return f
}

// tick counts the steps until an instant.
func (r *Rate) tick(f form, at int64) int64 {
	switch {
	case r.Calendar != nil:
		return r.Calendar.Number(at)
	case r.Step == 1:
		return at
	}
	return floorTo(at-f.phase, r.Step) / r.Step
}

func (b *block) last() hold { return b.holds[len(b.holds)-1] }

// add adds h to b, behind all others.
func (b *block) add(r *Rate, f form, h hold) {
	own, gained := mulDiv(h.tokens, f.unit, 1), int64(0)
	if len(b.holds) > 0 {
		gained = mulDiv(r.tick(f, h.at)-r.tick(f, b.last().at), f.gain, 1)
	}
	b.holds = append(b.holds, h)
	if b.tokens += h.tokens; mulDiv(b.tokens, f.unit, 1) < Forever {
		b.cut = max(b.cut+own-gained, own)
	} else { // no bucket of these units holds as much: pass does not use it
		b.cut = Forever
	}
	if h.ticket < FirstLease {
		b.due = h.at
	}
}

// blockOf is the block of holds.
func (r *Rate) blockOf(f form, holds []hold) block {
	b := block{holds: make([]hold, 0, BlockSize)}
	for _, h := range holds {
		b.add(r, f, h)
	}
	return b
}

// blocksOf is the blocks of holds, which are in order.
func (r *Rate) blocksOf(f form, holds []hold) (list []block) {
	for part := range slices.Chunk(holds, BlockSize) {
		list = append(list, r.blockOf(f, part))
	}
	return list
}

// pass is refillThrough of a block's holds, of a bucket with so many tokens held. f is what the block's cut is computed for.
//
// At the end of a hold the level is at most its room while that is held, and from there on it gains as if there were no
// more holds. So at the end of the last it is the least of what it would gain from l on, and from the end of each.
func (r *Rate) pass(f form, b *block, l Level, out int64) Level {
	last := b.last().at
	if out > (r.Full+r.deepest)/r.Unit || f != r.form(l) { // what room is then, or in steps of another form, no cut can tell
		l, _ = r.refillThrough(b.holds, l, out)
		return l
	}
	steps := r.tick(f, last) - r.tick(f, l.At)
	l.Units = min(l.Units+mulDiv(steps, f.gain, 1), r.Full-(out-b.tokens)*r.Unit-b.cut)
	if l.At += steps * r.Step; r.Aligned {
		l.At = last
	}
	return l
}

// tokensIn is how many tokens blocks hold.
func tokensIn(blocks []block) (tokens int64) {
	for i := range blocks {
		tokens += blocks[i].tokens
	}
	return tokens
}
