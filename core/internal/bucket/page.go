package bucket

import "slices"

// page is 1 to PageSize holds that end one after another, with what a refill
// through all of them needs to know.
type page struct {
	holds  []hold // at least one, at most PageSize
	tokens int64  // of all holds
	due    int64  // when the last reservation among them is due; 0: there is none
	// deficit is by how much, in units, the level stays below the room when the
	// last hold ends, even if it was as high as it could be before: while more
	// was held, it could not rise that far.
	//
	// Example: a token is one unit, and one is gained a second. A hold of 10
	// tokens ends at 60 s, another one of 10 at 64 s. Until 60 s the level is
	// at most Capacity - 20, so at 64 s at most Capacity - 16. The room is then
	// the Capacity: the deficit is 16.
	//
	// Tokens that come back when their hold ends leave no deficit. In a page
	// with holds of both kinds it is Forever: a refill then looks at each hold.
	deficit int64
}

// PageSize is the most holds in a page.
const PageSize = 64

// stepping is what the deficits of pages depend on, besides the holds. With
// another stepping the pages are computed anew.
type stepping struct {
	stepsHash         uint16 // Rate.StepsHash
	unit, gain, phase int64  // phase: how long after a multiple of Step the steps begin
}

func (r *Rate) stepping(l Level) stepping {
	f := stepping{r.StepsHash, r.Unit, min(r.Gain, r.Full), 0} // a step can't bring more than fills the bucket: see gainTo
	if r.Step > 1 && !r.Aligned {
		f.phase = l.At - floorTo(l.At, r.Step)
	}
	return f
}

// stepNumber is the number of the last step up to the instant at. Between two
// instants there are as many steps as their numbers differ.
func (r *Rate) stepNumber(f stepping, at int64) int64 {
	switch {
	case r.Calendar != nil:
		return r.Calendar.Number(at)
	case r.Step == 1:
		return at
	}
	return floorTo(at-f.phase, r.Step) / r.Step
}

func (b *page) last() hold { return b.holds[len(b.holds)-1] }

// add adds h, which must end after b's other holds, to b.
func (b *page) add(r *Rate, f stepping, h hold) {
	own, gained, mixed := mulDiv(h.tokens, f.unit, 1), int64(0), false
	if h.returns() {
		own = 0
	}
	if len(b.holds) > 0 {
		gained = mulDiv(r.stepNumber(f, h.at)-r.stepNumber(f, b.last().at), f.gain, 1)
		mixed = b.deficit == Forever || b.last().returns() != h.returns()
	}
	b.holds = append(b.holds, h)
	if b.tokens += h.tokens; mulDiv(b.tokens, f.unit, 1) < Forever && !mixed {
		b.deficit = max(b.deficit+own-gained, own)
	} else { // with so many tokens, more than any bucket of r has, refillThroughPage uses no deficit either
		b.deficit = Forever
	}
	if h.ticket < FirstLease {
		b.due = h.at
	}
}

func (r *Rate) pageOf(f stepping, holds []hold) page {
	b := page{holds: make([]hold, 0, PageSize)}
	for _, h := range holds {
		b.add(r, f, h)
	}
	return b
}

// pagesOf divides holds, which are in order, into pages.
func (r *Rate) pagesOf(f stepping, holds []hold) (list []page) {
	for part := range slices.Chunk(holds, PageSize) {
		list = append(list, r.pageOf(f, part))
	}
	return list
}

// refillThroughPage is refillThrough of a page's holds in one step. held tokens
// are held at first, those of the page among them. f is the stepping for which
// the page's deficit was computed.
//
// When the last hold ends, the level is the lower of two: l plus all that is
// gained and comes back until then, and the highest level that the holds allow,
// which does not depend on l: the room less the deficit.
//
// Example: the page is that of deficit, the Capacity is 100, and no other
// tokens are held. A level of 50 at 40 s is min(50 + 24, 100 - 16) = 74 at 64
// s, and one of 75 is min(75 + 24, 100 - 16) = 84: it was 80, all the room,
// from 45 to 60 s.
func (r *Rate) refillThroughPage(f stepping, b *page, l Level, held int64, c *Cut) Level {
	last := b.last().at
	if held > (r.Full+r.maxDebt)/r.Unit || f != r.stepping(l) || b.deficit == Forever || c != nil && c.Tokens > 0 || r.foreign {
		return r.refillThrough(b.holds, l, held, c) // the room ends at the deepest debt, the steps are others or unknown, or something is cut
	}
	steps := r.stepNumber(f, last) - r.stepNumber(f, l.At)
	back := int64(0)
	if b.last().returns() {
		back = b.tokens * r.Unit
	}
	l.Units = min(l.Units+mulDiv(steps, f.gain, 1)+back, r.Full-(held-b.tokens)*r.Unit-b.deficit)
	if l.At += steps * r.Step; r.Aligned {
		l.At = last
	}
	return l
}

func tokensIn(pages []page) (tokens int64) {
	for i := range pages {
		tokens += pages[i].tokens
	}
	return tokens
}
