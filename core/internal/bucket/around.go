package bucket

import "slices"

// This file refills levels and computes waits while tokens are held.

// refillAround is refill of a bucket with holds, which were written with the
// level l at the instant written. c is what is cut from l.
func (r *Rate) refillAround(h *Holds, l Level, written, now int64, c *Cut) Level {
	held := heldAt(h.front, written) + tokensIn(h.pages)
	for _, f := range h.front {
		if f.at < now && f.holdsAt(written) {
			l, held = r.end(f, r.refillCut(l, held, f.at, c), held, c)
		}
	}
	for i := range h.pages {
		b := &h.pages[i]
		if b.last().at >= now {
			ended, _ := slices.BinarySearchFunc(b.holds, hold{at: now}, hold.compare)
			l = r.refillThrough(b.holds[:ended], l, held, c)
			break
		}
		l = r.refillThroughPage(h.stepping, b, l, held, c)
		held -= b.tokens
	}
	return r.refillCut(l, h.Held(now), now, c)
}

// prune returns the holds that have not ended before now, with pages for the
// stepping of the level l. h does not change.
func (r *Rate) prune(h *Holds, l Level, now int64) *Holds {
	rest := &Holds{stepping: r.stepping(l), moved: h.moved}
	for _, f := range h.front {
		if f.at >= now {
			rest.front = append(rest.front, f)
		}
	}
	pages := h.pages
	for len(pages) > 0 && pages[0].last().at < now {
		pages = pages[1:]
	}
	rest.pages = slices.Clone(pages)
	for len(rest.pages) > 0 && rest.pages[0].holds[0].at <= now {
		holds := rest.pages[0].holds
		for len(holds) > 0 && holds[0].at <= now {
			if holds[0].at == now {
				rest.front = append(rest.front, holds[0])
			}
			holds = holds[1:]
		}
		rest.replace(r, 0, holds)
	}
	if h.stepping != rest.stepping { // another definition wrote them, the steps have begun again, or the clock has moved them
		rest.pages = r.pagesOf(rest.stepping, rest.inPages())
	}
	return rest
}

// waitAround is wait in a bucket with the holds that prune returned, and from
// which nothing is cut. It may have to wait until some holds end.
//
// Example: Capacity 10, 1 token a second, the level is 2 and 8 are held until
// second 60. 5 tokens are there at second 63.
func (r *Rate) waitAround(h *Holds, l Level, need, now int64) int64 {
	if l.Units >= need || h == nil {
		return r.wait(l, need, 0, now)
	}
	held := tokensIn(h.pages)
	for _, f := range h.front { // which end now
		if l, _ = r.end(f, l, held+f.tokens, nil); l.Units >= need {
			return 1
		}
	}
	for i := range h.pages {
		b := &h.pages[i]
		passed := r.refillThroughPage(h.stepping, b, l, held, nil)
		if passed.Units < need {
			l = passed
			held -= b.tokens
			continue
		}
		for _, hold := range b.holds { // the level reaches need before the last of these holds ends
			if need <= r.room(held) {
				if micros := r.wait(l, need, held, now); now+micros <= hold.at {
					return min(Forever, micros)
				}
			}
			if l, held = r.end(hold, r.refill(l, held, hold.at), held, nil); l.Units >= need {
				return min(Forever, hold.at+1-now)
			}
		}
	}
	return min(Forever, r.wait(l, need, held, now))
}
