package bucket

// This file takes and returns tokens, with the holds on them.

// end ends r's holds in every limit that has them, and puts back the tokens
// that r says, at most what was held. It reports whether there were any.
func (s *stored) end(a *Answer, r *Request) (ended bool) {
	ends := []Ending{r.Ends}
	if r.EndsToo != nil {
		ends = append(ends, *r.EndsToo...)
	}
	for i := range r.Set.Rates {
		h := s.holdsOf(i)
		if h == nil {
			continue
		}
		for _, e := range ends {
			if tokens := h.remove(&r.Set.Rates[i], e); tokens > 0 {
				s.credit(i, a, r.Set, min(tokens, e.Back))
				ended = true
			}
		}
	}
	return ended
}

// credit puts n tokens back into the i-th limit, as far as there is room.
func (s *stored) credit(i int, a *Answer, p *LimitSet, n int64) {
	rate, l := &p.Rates[i], a.Levels.At(i)
	l.Units = rate.give(l.Units, n, rate.room(s.holdsOf(i).Held(a.Now)), s.cutOf(i))
}

// grants reports whether every limit has r's tokens, of a reservation within
// More µs. Then a.Due is when.
func (s *stored) grants(a *Answer, r *Request) bool {
	there := true
	for i := range r.Set.Rates {
		if rate, n := &r.Set.Rates[i], r.Of(i); n > rate.Capacity {
			return false
		} else if a.Levels.At(i).Units < n*rate.Unit && !rate.spares(n) || s.crowded(i, r) {
			there = false
		}
	}
	if !r.promises() {
		return there
	}
	granted := true
	for i := range r.Set.Rates {
		rate, l, holds := &r.Set.Rates[i], *a.Levels.At(i), s.holdsOf(i)
		need := r.Of(i) * rate.Unit
		a.Due = max(a.Due, min(Forever, a.Now+s.wait(i, rate, l, need, a.Now)), holds.lastReservation())
		granted = granted && l.Units-need >= -rate.maxDebt && holds.count() < MaxHolds
	}
	return granted && a.Due-a.Now <= r.More
}

// charge takes r's tokens from every limit, and adds the hold of a reservation
// or a lease.
func (s *stored) charge(a *Answer, r *Request) {
	for i := range r.Set.Rates {
		a.Levels.At(i).Units -= r.Of(i) * r.Set.Rates[i].Unit
	}
	defer s.acquire(a, r)
	h := hold{a.Due, r.Ticket, r.N}
	switch {
	case r.Action == Lease, r.Action == AtMost:
		if a.Lent = s.extra(a, r); a.Lent == 0 {
			return
		}
		for i := range r.Set.Rates {
			if r.Of(i) > 0 {
				a.Levels.At(i).Units -= a.Lent * r.Set.Rates[i].Unit
			}
		}
		if r.Action == AtMost {
			return
		}
		h = hold{a.Now + LeaseLife, r.Ticket, a.Lent}
	case r.Action == Take, r.Action == Acquire, r.Action == Await && a.Due == a.Now: // no hold: the tokens are used now
		return
	case a.Due == a.Now:
		h.ticket += AtOnce
	}
	for i := range r.Set.Rates {
		if r.Of(i) > 0 {
			s.hold(i, r, *a.Levels.At(i)).add(&r.Set.Rates[i], h, a.Now)
		}
	}
}

// spares reports whether a request for n tokens asks nothing of a limit of
// slots, of which more may be out than a lowered Capacity has.
func (r *Rate) spares(n int64) bool { return r.Slots && n == 0 }

// crowded reports whether the i-th limit has too many holds for one of r.
func (s *stored) crowded(i int, r *Request) bool {
	return r.holds(i) && s.holdsOf(i).count() >= MaxHolds
}

// acquire adds the holds of limits that hold what r has taken.
func (s *stored) acquire(a *Answer, r *Request) {
	for i := range r.Set.Rates {
		if rate := &r.Set.Rates[i]; r.holds(i) {
			s.hold(i, r, *a.Levels.At(i)).add(rate, hold{a.Now + rate.Hold - 1, r.Ticket, r.Of(i) + a.Lent}, a.Now)
		}
	}
}

// extend has the limits that r names hold their tokens from now on. A limit
// whose hold has ended takes them again. If it lacks them, r is not allowed. It
// reports whether anything changed.
func (s *stored) extend(a *Answer, r *Request) (write bool) {
	for i := range r.Set.Rates {
		rate, n, l := &r.Set.Rates[i], r.Of(i), a.Levels.At(i)
		if !r.holds(i) {
			continue
		}
		held := int64(0)
		if h := s.holdsOf(i); h != nil {
			held = h.remove(rate, r.Ends)
		}
		if held == 0 {
			if l.Units < n*rate.Unit || s.crowded(i, r) {
				a.Allowed = false
				continue
			}
			l.Units -= n * rate.Unit
			held = n
		}
		s.hold(i, r, *l).add(rate, hold{a.Now + rate.Hold - 1, r.Ticket, held}, a.Now)
		write = true
	}
	return write
}

// extra is how many tokens r takes beyond N: at most More, and at most what
// every limit has left. A lease gets at most half of that, so that one process
// never has the last tokens of a bucket.
func (s *stored) extra(a *Answer, r *Request) int64 {
	extra := r.More
	for i := range r.Set.Rates {
		if r.Of(i) == 0 {
			continue
		}
		left := a.Levels.At(i).Units / r.Set.Rates[i].Unit
		if r.Action == Lease {
			left /= 2
			if s.holdsOf(i).count() >= MaxHolds {
				return 0
			}
		}
		extra = min(extra, left)
	}
	return max(0, extra)
}
