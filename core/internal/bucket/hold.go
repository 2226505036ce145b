package bucket

import "cmp"

// A hold is tokens that were taken from a bucket's level and are not used yet:
// those of a reservation, which are used when it is due, and those on lease,
// which a process may use at any time until the lease ends. Or it is tokens
// that are in use for some time, as slots are, or were only estimated: these
// come back to the level when the hold ends.
//
// Held tokens still count against the Capacity. While n tokens are held, the
// bucket refills, and takes tokens back, only up to its Capacity less n. So the
// level plus what is held is never more than the Capacity. Such a bucket never
// admits more than one that is charged at the moment of use: at most
// Limit.MaxIn in any window, whatever is held, given back or lost.
//
// Example: of 10 tokens 4 are held, so 6 are left. The bucket does not refill
// above 6 until the hold ends. Without this rule it would refill to 10 at once,
// and together with the held tokens 14 could be used in one moment.
type hold struct {
	at     int64 // µs since 1970: when the hold ends, and its tokens count as used
	ticket int64 // a number that only the hold's owner knows, who may end the hold early
	tokens int64
}

const (
	// FirstLease is the smallest ticket of a lease. Tickets of reservations are
	// below AtOnce.
	FirstLease = 1 << 52
	// FirstReturning is the smallest ticket of a hold whose tokens come back
	// when it ends. Those of leases are below. Versions before this had leases
	// of these tickets too, one in a thousand.
	FirstReturning = 1<<53 - 1<<42
	// AtOnce is added to the ticket of a reservation that is due when it is
	// made. It holds nothing: see holdsAt.
	AtOnce = 1 << 51
	// MaxHolds bounds the holds on one limit's tokens: they are some 45 kB of
	// stored state, and docs/how-it-works.md has how long a decision with so
	// many keeps the server busy.
	MaxHolds = 2048
	// MaxHeld bounds the tokens that stored holds may have: no bucket's
	// Capacity and largest debt together are as many.
	MaxHeld = 1 << 52
)

// compare orders holds by their ends, and those with one end by their tickets.
func (h hold) compare(other hold) int {
	return cmp.Or(cmp.Compare(h.at, other.at), cmp.Compare(h.ticket, other.ticket))
}

// returns reports whether h's tokens come back to the level when it ends.
func (h hold) returns() bool { return h.ticket >= FirstReturning }

// holdsAt reports whether h holds its tokens at now. In the microsecond of its
// end a hold still holds them: they are used after everything else in it. A
// reservation that was due when it was made holds nothing, but can still be
// cancelled.
func (h hold) holdsAt(now int64) bool {
	return h.at > now || h.at == now && (h.ticket < AtOnce || h.ticket >= FirstLease)
}

// heldAt is how many tokens holds hold at now.
func heldAt(holds []hold, now int64) (tokens int64) {
	for _, h := range holds {
		if h.holdsAt(now) {
			tokens += h.tokens
		}
	}
	return tokens
}

// refillThrough refills l until the last of holds ends. holds are in the order
// of their ends. held tokens are held at first, those of holds among them.
func (r *Rate) refillThrough(holds []hold, l Level, held int64, c *Cut) Level {
	for _, h := range holds {
		l, held = r.end(h, r.refillCut(l, held, h.at, c), held, c)
	}
	return l
}

// end ends h at the level l, which is that of h's end, while held tokens are
// held, h's among them. It returns the level after it, and what is held then.
func (r *Rate) end(h hold, l Level, held int64, c *Cut) (_ Level, rest int64) {
	if rest = held - h.tokens; h.returns() {
		l.Units = r.give(l.Units, h.tokens, r.room(rest), c)
	}
	return l, rest
}
