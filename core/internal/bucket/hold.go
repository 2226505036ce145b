package bucket

import "cmp"

// A hold is tokens that have left a bucket's level and are not used yet: those of a reservation, which are used when it
// is due, and those on lease, which a process may use at any time until the lease ends.
//
// The tokens keep their room in the bucket. While n tokens are held it refills, and takes tokens back, up to its
// Capacity less n. So the level and what is held are together never more than the Capacity: they are what a plain
// bucket would have that is charged when the tokens are used. A plain bucket admits at most Limit.MaxIn in any window,
// and so does this one, whatever is held, given back or lost.
type hold struct {
	at     int64 // µs since 1970: the tokens are used by then
	ticket int64 // whoever has it may end the hold
	tokens int64
}

const (
	// FirstLease is the smallest ticket of a lease. Those of reservations are smaller.
	FirstLease = 1 << 52
	// AtOnce is more than the ticket of any reservation. It is added to the ticket of one that was due when it was
	// made.
	AtOnce = 1 << 51
	// MaxHolds bounds the holds on one limit's tokens: some 45 kB of stored state, and how long one decision
	// keeps the server: see docs/how-it-works.md.
	MaxHolds = 2048
	// MaxHeld is more tokens than a bucket has and owes.
	MaxHeld = 1 << 52
)

// compare orders holds by their ends, and those with one end by their tickets.
func (h hold) compare(other hold) int {
	return cmp.Or(cmp.Compare(h.at, other.at), cmp.Compare(h.ticket, other.ticket))
}

// holdsAt reports whether h holds its tokens at an instant. In the microsecond in which a reservation is due, its tokens
// are used after all else. A reservation that was due when it was made is used already, though it may be cancelled.
func (h hold) holdsAt(now int64) bool {
	return h.at > now || h.at == now && (h.ticket < AtOnce || h.ticket >= FirstLease)
}

// heldAt is how many tokens are held at an instant.
func heldAt(holds []hold, now int64) (tokens int64) {
	for _, h := range holds {
		if h.holdsAt(now) {
			tokens += h.tokens
		}
	}
	return tokens
}

// refillThrough is refill of a bucket with so many tokens held, until the last of holds ends. They are in the order of their
// ends. It returns how many tokens stay held.
func (r *Rate) refillThrough(holds []hold, l Level, out int64) (_ Level, rest int64) {
	for _, h := range holds {
		l = r.refill(l, out, h.at)
		out -= h.tokens
	}
	return l, out
}
