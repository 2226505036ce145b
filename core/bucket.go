package core

// The algorithm, in Go. script.lua is its twin, function by function and name by name: the tests
// hold the two against each other decision by decision. Change them together.

// action is what a Request asks of a bucket.
type action uint8

const (
	// take takes n tokens from every limit, or nothing from any.
	take action = iota
	// refund puts n tokens back into every limit, as far as there is room.
	refund
	// end ends a hold, and nothing else.
	end
	// reserve takes n tokens that are there within `more` µs, and holds them until they are. A later
	// reservation is never due before an earlier one.
	reserve
	// await is reserve, but holds nothing that is there at once.
	await
	// lease takes n tokens and up to `more` beyond them, which it holds for leaseLife.
	lease
)

// leaseLife is how long, in µs, tokens on lease may be used.
const leaseLife = 2_000_000

// ending ends a hold before its time, as part of a Request: those of its tokens that are not used come back.
type ending struct {
	ticket int64 // 0: none
	back   int64 // how many come back
}

// decide answers r in a, from what is stored. It reports whether records must be stored: those that s.records
// returns then.
//
// A denied request writes nothing, save that a clock that stepped back must be noted: elapsed time
// would stay 0 until the old instant is reached again.
func (r *Request) decide(a *Answer, s *stored, now int64) (write bool) {
	rates := r.plan.rates
	a.now, a.Allowed = now, true
	a.levels.grow(len(rates))
	for i := range rates {
		rate, l := &rates[i], a.levels.at(i)
		switch {
		case s.own == nil || s.own[i].tag == 0:
			*l = level{rate.full, now}
			continue
		case s.own[i].at > now:
			write = s.stepBack(i, rate, now) || write
		}
		*l = rate.level(&s.own[i])
		if s.holds == nil {
			*l = rate.refill(*l, 0, now)
		} else {
			*l, s.holds[i] = rate.refillAround(s.holds[i], *l, s.own[i].at, now)
		}
		// A limit that was full under the limits that wrote it is as one that was never used: its bucket is full,
		// whatever its Capacity has become.
		if s.own[i].keep <= now {
			l.units = rate.full
		}
	}
	if r.ends.ticket != 0 && s.end(a, r) {
		write = true
	}
	switch r.action {
	case refund:
		if s.own == nil {
			return write // what was never used is full
		}
		for i := range rates {
			s.useNow(i, r.n, now)
			s.give(i, a, r.plan, r.n)
		}
		write = true
	case take, reserve, await, lease:
		a.due = now
		if a.Allowed = s.grants(a, r); a.Allowed && r.n > 0 {
			s.charge(a, r)
			write = true
		}
	case end:
	}
	if s.holds != nil || !write && s.fullEarlier(a, r) {
		s.tellWaits(a, r, write)
	}
	return write
}

// fullEarlier reports whether other limits wrote a record that r's would need longer to fill.
func (s *stored) fullEarlier(a *Answer, r *Request) bool {
	for i := range s.own {
		if keep := s.own[i].keep; keep > a.now && keep < s.fullAt(i, &r.plan.rates[i], *a.levels.at(i), a.now) {
			return true
		}
	}
	return false
}

// stepBack moves what is stored of the i-th limit back to now, where the clock has stepped back to. Nothing
// refills for the time between. If the last step is ahead, steps count anew. Holds last on as long as they would have,
// and those of reservations until the step they wait for. It reports whether anything of that must be stored.
func (s *stored) stepBack(i int, rate *rate, now int64) bool {
	own, holds := &s.own[i], s.holdsOf(i)
	by, steps := own.at-now, int64(0)
	if last := rate.steppedAt(rate.level(own)); last > now {
		steps = last - rate.steppedAt(level{at: now})
	} else if len(holds) == 0 {
		return false
	}
	own.keep -= min(steps, by)
	own.at = now
	if rate.aligned {
		steps = by - by%rate.step
	}
	var moved []hold
	for _, h := range holds {
		if h.ticket < firstLease {
			h.at -= steps
		} else {
			h.at -= by
		}
		moved = addHold(moved, h)
	}
	if len(holds) > 0 {
		s.holds[i] = moved
	}
	return true
}

// end ends r's hold in every limit that has it. What comes back is at most what was held.
func (s *stored) end(a *Answer, r *Request) (ended bool) {
	for i := range r.plan.rates {
		if rest, tokens := endHold(s.holdsOf(i), r.ends.ticket); tokens > 0 {
			s.holds[i] = rest
			s.give(i, a, r.plan, min(tokens, r.ends.back))
			ended = true
		}
	}
	return ended
}

// useNow lets so many tokens of the i-th limit's reservations that were due at once be used: what comes back now comes
// after they were, and can't come back again if they are cancelled in this microsecond.
func (s *stored) useNow(i int, tokens, now int64) {
	var rest []hold
	for _, h := range s.holdsOf(i) {
		if !h.holdsAt(now) {
			used := min(tokens, h.tokens)
			tokens, h.tokens = tokens-used, h.tokens-used
		}
		if h.tokens > 0 {
			rest = append(rest, h)
		}
	}
	if s.holds != nil {
		s.holds[i] = rest
	}
}

// give puts n tokens back into the i-th limit, as far as there is room.
func (s *stored) give(i int, a *Answer, p *plan, n int64) {
	rate, l := &p.rates[i], a.levels.at(i)
	l.units = max(l.units, min(l.units+rate.units(n), rate.room(held(s.holdsOf(i), a.now))))
}

// grants reports whether every limit has n tokens: now, or for a reservation when it is due.
func (s *stored) grants(a *Answer, r *Request) bool {
	there := true
	for i := range r.plan.rates {
		if rate := &r.plan.rates[i]; r.n > rate.capacity {
			return false
		} else if a.levels.at(i).units < r.n*rate.unit {
			there = false
		}
	}
	if !r.promises() {
		return there
	}
	granted := true
	for i := range r.plan.rates {
		rate, l, holds := &r.plan.rates[i], *a.levels.at(i), s.holdsOf(i)
		need := r.n * rate.unit
		a.due = max(a.due, min(forever, a.now+rate.waitAround(holds, l, need, a.now)), lastReservation(holds))
		granted = granted && l.units-need >= -maxDebt && len(holds) < maxHolds
	}
	return granted && a.due-a.now <= r.more
}

// charge takes n tokens from every limit, and holds what r asks for.
func (s *stored) charge(a *Answer, r *Request) {
	for i := range r.plan.rates {
		a.levels.at(i).units -= r.n * r.plan.rates[i].unit
	}
	h := hold{r.n, a.due, r.ticket}
	switch {
	case r.action == lease:
		if a.lent = s.extra(a, r); a.lent == 0 {
			return
		}
		for i := range r.plan.rates {
			a.levels.at(i).units -= a.lent * r.plan.rates[i].unit
		}
		h = hold{a.lent, a.now + leaseLife, r.ticket}
	case r.action == take, r.action == await && a.due == a.now:
		return
	case a.due == a.now:
		h.ticket += atOnce
	}
	if s.own == nil {
		s.own = make([]record, len(r.plan.rates))
	}
	for i := range r.plan.rates {
		s.hold(i, addHold(s.holdsOf(i), h))
	}
}

// extra is how many tokens a lease gets: half of what every limit has left at most, so that the last tokens
// of a bucket are not all with one process.
func (s *stored) extra(a *Answer, r *Request) int64 {
	extra := r.more
	for i := range r.plan.rates {
		if extra = min(extra, a.levels.at(i).units/r.plan.rates[i].unit/2); len(s.holdsOf(i)) >= maxHolds {
			return 0
		}
	}
	return max(0, extra)
}

// tellWaits has a tell how long the limits make others wait where that does not follow from their levels: behind
// holds, and where nothing is written and other limits say when a bucket is full.
func (s *stored) tellWaits(a *Answer, r *Request, write bool) {
	list := make([]waits, len(r.plan.rates))
	need := r.n
	if a.Allowed {
		need = 1
	}
	for i := range r.plan.rates {
		rate, l, holds, until := &r.plan.rates[i], *a.levels.at(i), s.holdsOf(i), int64(forever)
		if !write && s.own != nil && s.own[i].keep > a.now {
			until = s.own[i].keep - a.now
		}
		list[i].full = min(until, rate.waitAround(holds, l, rate.full, a.now))
		if need <= rate.capacity {
			list[i].retry = min(until, rate.waitAround(holds, l, need*rate.unit, a.now))
		}
	}
	a.waits = &list
}

// promises reports whether r may be granted tokens that are not there yet.
func (r *Request) promises() bool { return r.action == reserve || r.action == await }

// takes reports whether r may be denied.
func (r *Request) takes() bool { return r.action != refund && r.action != end }

// gives reports whether tokens come back by r.
func (r *Request) gives() bool { return r.action == refund || r.ends.back > 0 }
