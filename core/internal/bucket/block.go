package bucket

import "slices"

// block is 1 to BlockSize holds that end one after another, with what a refill through all of them needs to know.
type block struct {
	holds  []hold // at least one, at most BlockSize
	tokens int64  // of all holds
	due    int64  // when the last reservation among them is due; 0: there is none
	// deficit is the room at the end of the last hold less the highest level that is possible there, in units. The level is lower
	// than the room, because earlier there was less room.
	//
	// Example: a token is one unit, and one is gained a second. Two holds of 10 tokens end at 60 s and 64 s. At 60 s the level is
	// at most Capacity - 20, and at 64 s 4 more: Capacity - 16. The room is then the Capacity, so the deficit is 16.
	deficit int64
}

// BlockSize is the most holds in a block. A decision with n holds reads n/BlockSize blocks, and the holds of one or two.
const BlockSize = 64

// stepping is what the deficits of blocks depend on, besides the holds: the units and steps of a limit.
type stepping struct {
	steps             uint16 // Rate.Steps
	unit, gain, phase int64  // phase: how long after a multiple of Step the steps begin
}

// stepping returns the stepping of a limit with the refilled level l.
func (r *Rate) stepping(l Level) stepping {
	f := stepping{r.Steps, r.Unit, min(r.Gain, r.Full), 0} // a step can't bring more than fills the bucket: see gainTo
	if r.Step > 1 && !r.Aligned {
		f.phase = l.At - floorTo(l.At, r.Step)
	}
	return f
}

// stepsUntil is how many steps there are until the instant at, from a fixed one on.
func (r *Rate) stepsUntil(f stepping, at int64) int64 {
	switch {
	case r.Calendar != nil:
		return r.Calendar.Number(at)
	case r.Step == 1:
		return at
	}
	return floorTo(at-f.phase, r.Step) / r.Step
}

func (b *block) last() hold { return b.holds[len(b.holds)-1] }

// add adds h to b. It ends last.
func (b *block) add(r *Rate, f stepping, h hold) {
	own, gained := mulDiv(h.tokens, f.unit, 1), int64(0)
	if len(b.holds) > 0 {
		gained = mulDiv(r.stepsUntil(f, h.at)-r.stepsUntil(f, b.last().at), f.gain, 1)
	}
	b.holds = append(b.holds, h)
	if b.tokens += h.tokens; mulDiv(b.tokens, f.unit, 1) < Forever {
		b.deficit = max(b.deficit+own-gained, own)
	} else { // more than any bucket of these units: refillThroughBlock does not use the deficit then
		b.deficit = Forever
	}
	if h.ticket < FirstLease {
		b.due = h.at
	}
}

// blockOf returns a block of holds.
func (r *Rate) blockOf(f stepping, holds []hold) block {
	b := block{holds: make([]hold, 0, BlockSize)}
	for _, h := range holds {
		b.add(r, f, h)
	}
	return b
}

// blocksOf divides holds, which are in order, into blocks.
func (r *Rate) blocksOf(f stepping, holds []hold) (list []block) {
	for part := range slices.Chunk(holds, BlockSize) {
		list = append(list, r.blockOf(f, part))
	}
	return list
}

// refillThroughBlock is refillThrough of a block's holds in one step. held tokens are held at first, those of the block among
// them. f is the stepping for which the block's deficit was computed.
//
// Until a hold ends, the level is at most the room that all holds leave. From then on it gains as if there were no more holds.
// So at the end of the last hold the level is the least of these: what it gains from l on, and for each hold, the room before
// its end plus what is gained from there on. The latter don't depend on l: the least of them is the room less the deficit.
func (r *Rate) refillThroughBlock(f stepping, b *block, l Level, held int64) Level {
	last := b.last().at
	if held > (r.Full+r.maxDebt)/r.Unit || f != r.stepping(l) { // the room is bounded, or the deficit is of other steps: one by one
		l, _ = r.refillThrough(b.holds, l, held)
		return l
	}
	steps := r.stepsUntil(f, last) - r.stepsUntil(f, l.At)
	l.Units = min(l.Units+mulDiv(steps, f.gain, 1), r.Full-(held-b.tokens)*r.Unit-b.deficit)
	if l.At += steps * r.Step; r.Aligned {
		l.At = last
	}
	return l
}

// tokensIn is how many tokens the holds in blocks have.
func tokensIn(blocks []block) (tokens int64) {
	for i := range blocks {
		tokens += blocks[i].tokens
	}
	return tokens
}
