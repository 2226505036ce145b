package core

// Tokens on lease are taken from a bucket, but nobody has used them yet. They count towards its capacity:
// were the bucket to fill while they are out, a full bucket and they together would be a burst that no
// limit allows. So the stored state of a key that was leased from counts them.

const (
	// leaseWindow is how long, in µs, the windows are by which leases are counted. A lease ends with the
	// window after the one it was taken in, and is forgotten then: a process that ends without settling
	// takes nothing from a bucket for longer.
	leaseWindow = 1_000_000
	// leasedTag marks the record of tokens leased in windows of even number, the next tag those of odd
	// number. No limit has them.
	leasedTag = 1<<16 - 2
)

// leased counts the tokens of one key that are on lease, by the window they were taken in: those of an even
// one and those of an odd one. A record's tokens and the beginning of its window; zero is none.
type leased [2]bucket

// terms are what a process asks of a lease, and how its last one ended.
type terms struct {
	extra int64 // take up to so many beyond the cost

	taken int64 // the last lease: what was on lease
	at    int64 // in the window that began then, µs since 1970
	back  int64 // and what nobody used of it
}

// splitLeased tells the records of leases from those of limits.
func splitLeased(stored []bucket) (limits []bucket, on leased) {
	limits = stored[:0]
	for _, b := range stored {
		if b.tag >= leasedTag {
			on[b.tag-leasedTag] = b
		} else {
			limits = append(limits, b)
		}
	}
	return limits, on
}

// tokens is how many are on lease at now. Windows that are over, and those that a clock which stepped back
// left ahead, are forgotten.
func (on *leased) tokens(now int64) (tokens int64) {
	if on == nil {
		return 0
	}
	window := floorTo(now, leaseWindow)
	for i := range on {
		b := &on[i]
		if b.at < window-leaseWindow || b.at > window+leaseWindow {
			*b = bucket{}
		}
		tokens += int64(b.tokens)
	}
	return tokens
}

// settle ends the lease that t tells of. Of one that is over nothing comes back: the bucket may have filled
// again meanwhile.
func (on *leased) settle(t terms, now int64) (back int64, settled bool) {
	b := &on[t.at/leaseWindow&1]
	if t.taken == 0 || b.at != t.at || b.tokens < float64(t.taken) {
		return 0, false
	}
	b.tokens -= float64(t.taken)
	return t.back, true
}

// add counts tokens leased at now.
func (on *leased) add(tokens, now int64) {
	window := floorTo(now, leaseWindow)
	side := window / leaseWindow & 1
	b := &on[side]
	if b.at != window {
		*b = bucket{at: window}
	}
	b.tag = leasedTag + uint16(side)
	b.tokens += float64(tokens)
}

// append appends the records to state: of the windows that have tokens.
func (on *leased) append(state []byte) []byte {
	for _, b := range on {
		if b.tokens > 0 {
			state = appendBucket(state, b)
		}
	}
	return state
}

// left is how many µs after now the last lease ends: the state must be kept so long.
func (on *leased) left(now int64) (left int64) {
	for _, b := range on {
		if b.tokens > 0 {
			left = max(left, b.at+2*leaseWindow-now)
		}
	}
	return left
}

// room is how many units a bucket may hold while `out` tokens are on lease.
func (r *rate) room(out int64) int64 {
	return r.full - min(out, r.capacity)*r.unit
}

// extra is how many tokens beyond its cost a lease gets: half of what every limit has left, so that the
// last tokens of a bucket are not all with one process.
func (r *Request) extra(a *Answer) int64 {
	extra := r.terms.extra
	for i := range r.plan.rates {
		extra = min(extra, (a.levels.at(i).units/r.plan.rates[i].unit-r.n)/2)
	}
	return extra
}
