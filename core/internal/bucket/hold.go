package bucket

import "cmp"

// A hold is tokens that were taken from a bucket's level and are not used yet:
// those of a reservation, which are used when it is due, and those on lease,
// which may be used until the lease ends. Or it is tokens that come back to the
// level when the hold ends: slots in use, and estimates.
//
// While n tokens are held, the bucket refills, and takes tokens back, only up
// to its Capacity less n. So it never admits more than one that is charged at
// the moment of use: at most Limit.MaxIn in any window.
//
// Example: of 10 tokens 4 are held, so 6 are left. Without this rule the bucket
// would refill to 10, and 14 tokens could be used in one moment.
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
	// when it ends. Those of leases are below.
	FirstReturning = 1<<53 - 1<<42
	// AtOnce is added to the ticket of a reservation that is due when it is
	// made. It holds nothing: see holdsAt.
	AtOnce = 1 << 51
	// MaxHolds bounds the holds on one limit's tokens, which take some 45 kB of
	// stored state. docs/how-it-works.md has what a decision costs then.
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
// end a hold still does: they are used after everything else in it. A
// reservation that was due when it was made holds nothing, but can be
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

// refillThrough refills l until the last of holds, which are in the order of
// their ends, has ended. held tokens are held at first, theirs among them.
func (r *Rate) refillThrough(holds []hold, l Level, held int64, c *Cut) Level {
	for _, h := range holds {
		l, held = r.end(h, r.refillCut(l, held, h.at, c), held, c)
	}
	return l
}

// end ends h at the level l, that of h's end, while held tokens are held, h's
// among them. It returns the level after it, and what is held then.
func (r *Rate) end(h hold, l Level, held int64, c *Cut) (_ Level, rest int64) {
	if rest = held - h.tokens; h.returns() {
		l.Units = r.give(l.Units, h.tokens, r.room(rest), c)
	}
	return l, rest
}
