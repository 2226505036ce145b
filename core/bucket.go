package core

// The algorithm, in Go. script.lua is its twin, function by function and name by name: the tests
// hold the two against each other decision by decision. Change them together.

// action is what a Request asks of a bucket.
type action uint8

const (
	// take takes n tokens from every limit, or nothing from any. Tokens may be promised up to
	// `within` µs ahead: 0 for a plain decision.
	take action = iota
	// refund puts n tokens back into every limit, up to its capacity.
	refund
	// cancel puts back the n tokens of a reservation due at `due`, less those that later
	// reservations already build on.
	cancel
	// lease settles the lease before, takes n tokens and, on lease, up to terms.extra beyond them.
	lease
)

// decide answers r in a, from the stored buckets, which are in the order of the plan's rates; nil means
// the key does not exist. on is what is on lease, which it brings up to date; nil where nothing can be. It
// reports whether the levels in the answer must be stored.
//
// A denied request writes nothing, save that a clock that stepped back must be noted: elapsed time
// would stay 0 until the old instant is reached again.
func (r *Request) decide(a *Answer, stored []bucket, on *leased, now int64) (write bool) {
	rates := r.plan.rates
	a.now = now
	a.levels.grow(len(rates))
	a.Allowed = true
	var before leased // what was on lease while time passed
	if on != nil {
		on.forgetAhead(now)
		before = *on
		on.forget(now)
	}
	around := before.tokens() > 0
	back := int64(0)
	if r.action == lease {
		back, write = on.settle(*r.terms)
	}
	out := on.tokens()
	for i := range rates {
		rate, l := &rates[i], a.levels.at(i)
		if stored == nil || stored[i].tag != rate.tag {
			*l = rate.fresh(now)
		} else {
			*l = rate.level(stored[i])
			if around {
				*l = rate.refillAround(before, *l, now)
			} else {
				*l = rate.refill(*l, now)
			}
			write = write || stored[i].at > now
		}
		if back > 0 {
			l.units = rate.give(l.units, rate.units(back), out)
		}
		if r.takes() && !rate.grants(*l, r.n, r.within, now) {
			a.Allowed = false
		}
	}
	if r.takes() && (!a.Allowed || r.n == 0) || !r.takes() && stored == nil {
		return write
	}
	taken := r.n
	if r.action == lease {
		a.lent = r.extra(a)
		on.add(a.lent, now)
		taken += a.lent
	}
	for i := range rates {
		rate, l := &rates[i], a.levels.at(i)
		switch r.action {
		case take, lease:
			l.units -= taken * rate.unit
		case refund:
			l.units = rate.give(l.units, rate.units(r.n), out)
		case cancel:
			// What the bucket would lack when the reservation is due is promised to later ones.
			lack := min(0, rate.refill(*l, max(now, r.due)).units)
			l.units = rate.give(l.units, max(0, rate.units(r.n)+lack), out)
		}
	}
	return true
}

// takes reports whether r may be denied.
func (r *Request) takes() bool { return r.action == take || r.action == lease }

// gives reports whether tokens come back by r.
func (r *Request) gives() bool {
	return r.action == refund || r.action == cancel || r.action == lease && r.terms.back > 0
}

// grants reports whether l has n tokens now or, in at most `within` µs, will have.
func (r *rate) grants(l level, n, within, now int64) bool {
	if n > r.capacity {
		return false
	}
	need := n * r.unit
	return r.wait(l, need, now) <= within && l.units-need >= -maxDebt
}

// units is n tokens in units; n is what a bucket can hold at most.
func (r *rate) units(n int64) int64 { return min(n, r.capacity) * r.unit }

// give adds more to units, as long as there is room for them and for `out` tokens on lease.
func (r *rate) give(units, more, out int64) int64 {
	return max(units, min(units+more, r.room(out)))
}

// untilFull is how many µs pass until every limit is full again: as long as the state must be kept. What is
// on lease may be used until leasesEnd, if that is not past, so a bucket counts as filling from then.
func (r *Request) untilFull(a *Answer, leasesEnd int64) int64 {
	longest := int64(0)
	for i := range r.plan.rates {
		rate, l := &r.plan.rates[i], *a.levels.at(i)
		if leasesEnd > a.now {
			l.at = rate.refill(l, leasesEnd).at
		}
		longest = max(longest, rate.wait(l, rate.full, a.now))
	}
	return longest
}
