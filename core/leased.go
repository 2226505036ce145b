package core

// Tokens on lease have left a bucket, but nobody has used them yet: a process holds them, to decide by
// itself (WithLease). Would the bucket fill up behind them, a full bucket and they together would be a burst
// that no limit allows. So their room stays theirs: while k tokens are on lease a bucket refills, and takes
// back what is refunded, up to its capacity less k. For that, and for nothing else, the stored state counts
// them. A lease ends by being settled, when what nobody used of it comes back, or with its time, when all of
// it counts as used.
//
// Why that is exact: the level and what is on lease together are what a bucket without leases would hold if
// each use were charged when its lease ends. Charged at once, it would hold no less, as some of what it gained
// meanwhile may not have overflowed. So it would admit whatever is admitted here.

const (
	// leaseWindow is how long, in µs, the windows are by which leases are counted. A lease ends with the
	// window after the one it was taken in, and is not counted any more: a process that ends without
	// settling does no harm for longer.
	leaseWindow = 1_000_000
	// leasedTag marks the record of tokens leased in windows of even number, the next tag those of odd
	// number. No limit has them.
	leasedTag = 1<<16 - 2
)

// terms are what a process asks of a lease, and how its last one ended.
type terms struct {
	extra int64 // take up to so many tokens beyond the cost

	taken int64 // the last lease: what was on it
	at    int64 // in the window that began then, µs since 1970
	back  int64 // and what nobody used of it
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

// leased counts the tokens of one key that are on lease, by the window they were taken in: those of an even
// one and those of an odd one. A record's tokens and the beginning of its window; zero is none.
type leased [2]bucket

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

// leasesEnd is when the leases of the window that began at `at` are over.
func leasesEnd(at int64) int64 { return at + 2*leaseWindow }

// forgetAhead forgets leases that a clock which stepped back left ahead of now.
func (on *leased) forgetAhead(now int64) {
	for i := range on {
		if on[i].at > floorTo(now, leaseWindow)+leaseWindow {
			on[i] = bucket{}
		}
	}
}

// forget forgets leases that are over at now.
func (on *leased) forget(now int64) {
	for i := range on {
		if leasesEnd(on[i].at) <= now {
			on[i] = bucket{}
		}
	}
}

// tokens is how many are on lease.
func (on *leased) tokens() int64 {
	if on == nil {
		return 0
	}
	return int64(on[0].tokens) + int64(on[1].tokens)
}

// end is when all leases are over, 0 when there are none.
func (on *leased) end() (end int64) {
	if on == nil {
		return 0
	}
	for _, b := range on {
		if b.tokens > 0 {
			end = max(end, leasesEnd(b.at))
		}
	}
	return end
}

// settle ends the lease that t tells of. Of one that is over nothing comes back.
func (on *leased) settle(t terms) (back int64, settled bool) {
	b := &on[t.at/leaseWindow&1]
	if t.taken == 0 || b.at != t.at || b.tokens < float64(t.taken) {
		return 0, false
	}
	b.tokens -= float64(t.taken)
	return t.back, true
}

// refillAround is refill of a bucket with tokens on lease: each window's keep their room until they are over.
func (r *rate) refillAround(on leased, l level, now int64) level {
	if on[0].at > on[1].at {
		on[0], on[1] = on[1], on[0]
	}
	for i := range on {
		end := leasesEnd(on[i].at)
		if end > now {
			break
		}
		if end > l.at {
			l = r.refillTo(r.room(on.tokens()), l, end)
		}
		on[i] = bucket{}
	}
	return r.refillTo(r.room(on.tokens()), l, now)
}

// room is how much a bucket can hold while so many tokens are on lease.
func (r *rate) room(out int64) int64 { return r.full - min(out, r.capacity)*r.unit }

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
