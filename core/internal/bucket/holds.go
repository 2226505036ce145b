package bucket

import "slices"

// Holds are the holds on one limit's tokens. Those that end after the last
// write are in pages of up to 64. A decision mostly needs only what a whole
// page does to the level, so 2,048 holds cost it 32 steps.
//
// The others are in front, in the order of their ends. Almost always these end
// in the microsecond of the last write: they still hold their tokens in it, or
// are reservations that were due when they were made (see holdsAt).
//
// The Holds of a stored Record never change: a decision that writes makes new
// ones.
type Holds struct {
	stepping stepping // for which the pages' deficits were computed
	moved    bool     // a clock that stepped back has moved their ends, so Ending.At does not find them
	front    []hold
	pages    []page // in the order of hold.compare
}

// Held is how many tokens are held at now.
func (h *Holds) Held(now int64) (tokens int64) {
	if h == nil {
		return 0
	}
	tokens = heldAt(h.front, now)
	for i := range h.pages {
		switch b := &h.pages[i]; {
		case b.holds[0].at > now:
			tokens += b.tokens
		case b.last().at >= now:
			tokens += heldAt(b.holds, now)
		}
	}
	return tokens
}

// Uses is what holds hold, by what it is for, in tokens.
type Uses struct{ Reserved, Leased, Returning int64 }

// Uses is what is held at now, and for what.
func (h *Holds) Uses(now int64) (u Uses) {
	if h == nil {
		return u
	}
	for _, x := range append(slices.Clone(h.front), h.inPages()...) {
		switch {
		case !x.holdsAt(now):
		case x.returns():
			u.Returning += x.tokens
		case x.ticket >= FirstLease:
			u.Leased += x.tokens
		default:
			u.Reserved += x.tokens
		}
	}
	return u
}

func (h *Holds) count() (n int) {
	if h != nil {
		n = len(h.front)
		for i := range h.pages {
			n += len(h.pages[i].holds)
		}
	}
	return n
}

// returning reports whether the tokens of a hold may come back to the level
// when it ends.
func (h *Holds) returning() bool {
	return h != nil && (slices.ContainsFunc(h.front, hold.returns) ||
		slices.ContainsFunc(h.pages, func(b page) bool { return b.last().returns() || b.deficit == Forever }))
}

func (h *Holds) inPages() (list []hold) {
	for i := range h.pages {
		list = append(list, h.pages[i].holds...)
	}
	return list
}

// firstEnd is when the first hold ends, of which there must be one.
func (h *Holds) firstEnd() int64 {
	if len(h.front) > 0 {
		return h.front[0].at
	}
	return h.pages[0].holds[0].at
}

// end is when the last hold in a page ends; 0: there is none.
func (h *Holds) end() int64 {
	if h == nil || len(h.pages) == 0 {
		return 0
	}
	return h.pages[len(h.pages)-1].last().at
}

// lastReservation is when the last reservation is due; 0: there is none.
func (h *Holds) lastReservation() int64 {
	if h != nil {
		for _, b := range slices.Backward(h.pages) {
			if b.due > 0 {
				return b.due
			}
		}
	}
	return 0
}

// useNow takes so many tokens, or all, from the reservations that were due when
// they were made. A refund calls it: the tokens that it puts back may be theirs
// and must not come back again when they are cancelled.
func (h *Holds) useNow(tokens, now int64) {
	var rest []hold
	for _, f := range h.front {
		if !f.holdsAt(now) {
			used := min(tokens, f.tokens)
			tokens, f.tokens = tokens-used, f.tokens-used
		}
		if f.tokens > 0 {
			rest = append(rest, f)
		}
	}
	h.front = rest
}

// holdsOf returns the Holds of a list. Those that end at now or before are in
// front.
func holdsOf(list []hold, now int64) *Holds {
	h := &Holds{}
	var later []hold
	for _, x := range list {
		if x.at <= now {
			h.front = append(h.front, x)
		} else {
			later = append(later, x)
		}
	}
	slices.SortStableFunc(later, hold.compare)
	if len(later) > 0 {
		h.pages = []page{{holds: later}} // one page of any size, without a stepping: prune divides it
		for _, x := range later {
			h.pages[0].tokens += x.tokens
		}
	}
	return h
}

// pageWith returns the index of the page in which x is or belongs: the first
// one that does not end before x, or len(h.pages).
func (h *Holds) pageWith(x hold) int {
	i, _ := slices.BinarySearchFunc(h.pages, x, func(b page, x hold) int { return b.last().compare(x) })
	return i
}

// replace gives the i-th page other holds, or removes it if there are none.
func (h *Holds) replace(r *Rate, i int, holds []hold) {
	if len(holds) == 0 {
		h.pages = slices.Delete(h.pages, i, i+1)
		return
	}
	h.pages[i] = r.pageOf(h.stepping, holds)
}

// add adds x, which must end at now or later. A page that gets too large
// becomes two.
func (h *Holds) add(r *Rate, x hold, now int64) {
	if x.at <= now {
		h.front = append(h.front, x)
		return
	}
	i := h.pageWith(x)
	if i == len(h.pages) { // x ends last, the usual case
		if i > 0 && len(h.pages[i-1].holds) < PageSize {
			b := h.pages[i-1]
			b.holds = slices.Clone(b.holds)
			b.add(r, h.stepping, x)
			h.pages[i-1] = b
			return
		}
		h.pages = append(h.pages, r.pageOf(h.stepping, []hold{x}))
		return
	}
	holds := h.pages[i].holds
	at, _ := slices.BinarySearchFunc(holds, x, hold.compare)
	holds = slices.Insert(slices.Clone(holds), at, x)
	if half := PageSize / 2; len(holds) > PageSize {
		h.pages = slices.Insert(h.pages, i+1, r.pageOf(h.stepping, holds[half:]))
		holds = holds[:half]
	}
	h.replace(r, i, holds)
}

// remove removes the hold that e ends. It returns its tokens, or 0.
func (h *Holds) remove(r *Rate, e Ending) (tokens int64) {
	for i, f := range h.front {
		if f.ticket == e.Ticket || f.ticket == e.Ticket+AtOnce {
			h.front = slices.Delete(slices.Clone(h.front), i, i+1)
			return f.tokens
		}
	}
	end := e.At
	if e.Ticket >= FirstReturning {
		end += r.Hold - 1
	}
	i := h.pageWith(hold{at: end, ticket: e.Ticket})
	at := h.indexIn(i, e.Ticket)
	if at < 0 || h.pages[i].holds[at].at != end {
		if at = -1; !h.moved && e.Ticket < FirstReturning {
			return 0
		}
		// Its end is not what its owner knows: the clock, a Hold or another
		// definition has moved it.
		for i = 0; i < len(h.pages) && at < 0; i++ {
			if at = h.indexIn(i, e.Ticket); at >= 0 {
				break
			}
		}
		if at < 0 {
			return 0
		}
	}
	tokens = h.pages[i].holds[at].tokens
	h.replace(r, i, slices.Delete(slices.Clone(h.pages[i].holds), at, at+1))
	h.join(r, i)
	h.join(r, i-1)
	return tokens
}

// indexIn returns the index of the hold with a ticket in the i-th page, or -1.
func (h *Holds) indexIn(i int, ticket int64) int {
	if i >= len(h.pages) {
		return -1
	}
	return slices.IndexFunc(h.pages[i].holds, func(x hold) bool { return x.ticket == ticket })
}

// join makes one page of the i-th and the next, if both exist and their holds
// fit into one.
func (h *Holds) join(r *Rate, i int) {
	if i < 0 || i+1 >= len(h.pages) || len(h.pages[i].holds)+len(h.pages[i+1].holds) > PageSize {
		return
	}
	both := slices.Concat(h.pages[i].holds, h.pages[i+1].holds)
	h.pages = slices.Delete(h.pages, i, i+1)
	h.replace(r, i, both)
}
