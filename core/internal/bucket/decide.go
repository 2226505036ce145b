package bucket

import "slices"

// Decide decides r at the instant now, and sets a. records are the key's stored records; nil if there are none. If the decision
// changes the state, Decide returns the records to store, and keep, until when they matter. Otherwise next is nil. It returns an
// error if it can't use the records.
//
// A denied request changes nothing, with one exception. If the clock stepped back, the new instant must be stored: otherwise
// nothing would refill until the clock reaches the old one again.
func (r *Request) Decide(a *Answer, records []Record, now int64) (next []Record, keep int64, err error) {
	s := stored{}
	if records != nil {
		if err := s.arrange(r.Plan, records, now); err != nil {
			return nil, 0, err
		}
	}
	if write := r.decide(a, &s, now); !write {
		a.Unused = records == nil && r.Action == Take && a.Allowed && !r.Moves()
		return nil, 0, nil
	}
	next, keep = s.records(r.Plan, a)
	return next, keep, nil
}

// DecideState is Decide for a store that keeps a key's records as bytes.
func (r *Request) DecideState(a *Answer, state []byte, now int64) (next []byte, keep int64, err error) {
	var records []Record
	if state != nil {
		if records, err = ParseRecords(nil, state); err != nil {
			return nil, 0, err
		}
	}
	records, keep, err = r.Decide(a, records, now)
	if err != nil || records == nil {
		return nil, 0, err
	}
	next = make([]byte, 0, RecordSize*len(records))
	for _, record := range records {
		next = record.appendTo(next)
		next = record.Holds.appendTo(next)
	}
	return next, keep, nil
}

// decide decides r, sets a and changes s. It reports whether s must be stored. It refills, ends holds, and then does the action.
func (r *Request) decide(a *Answer, s *stored, now int64) (write bool) {
	rates := r.Plan.Rates
	a.Now, a.Allowed = now, true
	a.Levels.Grow(len(rates))
	// Refill. A limit that was not used yet starts full, and its steps begin here.
	for i := range rates {
		rate, l := &rates[i], a.Levels.At(i)
		if s.last == nil || s.last[i].Tag == 0 {
			*l = Level{rate.Full, now}
			continue
		}
		if s.last[i].At > now {
			write = s.stepBack(i, rate, now) || write
		}
		*l = s.refill(i, rate, now)
	}
	if r.Ends.Ticket != 0 && !r.extends() && s.end(a, r) {
		write = true
	}
	switch r.Action {
	case Refund:
		for i := range rates {
			switch n := r.Of(i); {
			case rates[i].Slots: // they come back when they are released
			case n > 0 && s.last != nil: // a bucket that was never used is full: nothing can come back
				if h := s.holdsOf(i); h != nil {
					h.useNow(n, now)
				}
				s.credit(i, a, r.Plan, n)
				write = true
			case n < 0:
				l := a.Levels.At(i)
				l.Units = rates[i].debit(l.Units, -n)
				write = true
			}
		}
	case Take, Reserve, Await, Lease, AtMost, Acquire:
		if r.extends() {
			write = s.extend(a, r) || write
			break
		}
		if r.promises() {
			a.Due = now
		}
		if a.Allowed = s.grants(a, r); a.Allowed && !r.Dry && r.Moves() {
			s.charge(a, r)
			write = true
		}
	case End:
	}
	if r.Takes() && s.held() || !write && s.fullEarlier(a, r) { // callers of the others need no waits
		s.setWaits(a, r, write)
	}
	return write
}

// stepBack moves the stored instants of the i-th limit back to now, to which the clock has stepped back. Nothing refills for the
// time between. It reports whether the change must be stored.
//
// If the last step is ahead of now, the steps begin again at now. Leases keep their remaining time, and reservations the number
// of steps until they are due. Reservations that were due at once still hold nothing.
//
// Example: a limit refills every minute, at 60 s and 120 s, and the clock steps from 130 s back to 40 s. If the limit is aligned
// to the clock, its next step is at 60 s. Otherwise the step at 120 s moves to 40 s, and the next one is at 100 s.
func (s *stored) stepBack(i int, rate *Rate, now int64) bool {
	own, holds := &s.last[i], s.holdsOf(i)
	by, steps := own.At-now, int64(0)
	if last := rate.steppedAt(rate.Level(own)); last > now {
		steps = last - rate.steppedAt(Level{At: now})
	} else if holds == nil {
		return false
	}
	c, periods := rate.Calendar, int64(0)
	if c != nil && steps > 0 {
		periods, steps = c.Number(own.At)-c.Number(now), 0
		if (own.Keep-own.At)/rate.Step < MaxPeriods { // further away only if another definition wrote it: it may stay
			steps = own.Keep - c.Earlier(own.Keep, periods)
		}
	}
	own.Keep -= min(steps, by)
	own.At = now
	if rate.Aligned {
		steps = by - by%rate.Step
	}
	if holds == nil {
		return true
	}
	moved := append(slices.Clone(holds.front), holds.inBlocks()...)
	for j := range moved {
		h := &moved[j]
		switch {
		case h.ticket >= AtOnce:
			h.at -= by
		case c != nil:
			h.at = max(h.at-by, c.Earlier(h.at, periods))
		default:
			h.at -= steps
		}
	}
	s.holds[i] = holdsOf(moved, now)
	s.holds[i].moved = true
	return true
}

// end ends r's holds in every limit that has them, and puts back the tokens that r says, at most what was held. It reports
// whether there were any.
func (s *stored) end(a *Answer, r *Request) (ended bool) {
	ends := []Ending{r.Ends}
	if r.EndsToo != nil {
		ends = append(ends, *r.EndsToo...)
	}
	for i := range r.Plan.Rates {
		h := s.holdsOf(i)
		if h == nil {
			continue
		}
		for _, e := range ends {
			if tokens := h.remove(&r.Plan.Rates[i], e); tokens > 0 {
				s.credit(i, a, r.Plan, min(tokens, e.Back))
				ended = true
			}
		}
	}
	return ended
}

// credit puts n tokens back into the i-th limit, as far as there is room. Tokens without room are counted, because the record of
// an earlier definition, whose Capacity may be larger, gets all of them: see nextOlder.
func (s *stored) credit(i int, a *Answer, p *Plan, n int64) {
	rate, l := &p.Rates[i], a.Levels.At(i)
	before := l.Units
	l.Units = max(l.Units, min(l.Units+rate.units(n), rate.room(s.holdsOf(i).Held(a.Now))))
	if s.older != nil {
		s.older[i].uncredited += float64(n) - float64(float64(l.Units-before)/float64(rate.Unit))
	}
}

// grants reports whether every limit has r's tokens now. Of a reservation it reports whether every limit will have them within More
// µs, and sets a.Due to when.
func (s *stored) grants(a *Answer, r *Request) bool {
	there := true
	for i := range r.Plan.Rates {
		if rate, n := &r.Plan.Rates[i], r.Of(i); n > rate.Capacity {
			return false
		} else if a.Levels.At(i).Units < n*rate.Unit || s.crowded(i, r) {
			there = false
		}
	}
	if !r.promises() {
		return there
	}
	granted := true
	for i := range r.Plan.Rates {
		rate, l, holds := &r.Plan.Rates[i], *a.Levels.At(i), s.holdsOf(i)
		need := r.Of(i) * rate.Unit
		a.Due = max(a.Due, min(Forever, a.Now+rate.waitAround(holds, l, need, a.Now)), holds.lastReservation())
		granted = granted && l.Units-need >= -rate.maxDebt && holds.count() < MaxHolds
	}
	return granted && a.Due-a.Now <= r.More
}

// charge takes r's tokens from every limit, and adds the hold of a reservation or a lease.
func (s *stored) charge(a *Answer, r *Request) {
	for i := range r.Plan.Rates {
		a.Levels.At(i).Units -= r.Of(i) * r.Plan.Rates[i].Unit
	}
	defer s.acquire(a, r)
	h := hold{a.Due, r.Ticket, r.N}
	switch {
	case r.Action == Lease, r.Action == AtMost:
		if a.Lent = s.extra(a, r); a.Lent == 0 {
			return
		}
		for i := range r.Plan.Rates {
			if r.Of(i) > 0 {
				a.Levels.At(i).Units -= a.Lent * r.Plan.Rates[i].Unit
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
	for i := range r.Plan.Rates {
		if r.Of(i) > 0 {
			s.hold(i, r, *a.Levels.At(i)).add(&r.Plan.Rates[i], h, a.Now)
		}
	}
}

// crowded reports whether the i-th limit has too many holds for one of r.
func (s *stored) crowded(i int, r *Request) bool {
	return r.holds(i) && s.holdsOf(i).count() >= MaxHolds
}

// acquire adds the holds of limits that hold what r has taken.
func (s *stored) acquire(a *Answer, r *Request) {
	for i := range r.Plan.Rates {
		if rate := &r.Plan.Rates[i]; r.holds(i) {
			s.hold(i, r, *a.Levels.At(i)).add(rate, hold{a.Now + rate.Hold - 1, r.Ticket, r.Of(i) + a.Lent}, a.Now)
		}
	}
}

// extend has the limits that r names hold their tokens from now on. A limit whose hold has ended takes them again. If it lacks them,
// r is not allowed. It reports whether anything changed.
func (s *stored) extend(a *Answer, r *Request) (write bool) {
	for i := range r.Plan.Rates {
		rate, n, l := &r.Plan.Rates[i], r.Of(i), a.Levels.At(i)
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

// extra is how many tokens r takes beyond N: at most More, and at most what every limit has left. A lease gets at most half of
// that, so that one process never has the last tokens of a bucket.
func (s *stored) extra(a *Answer, r *Request) int64 {
	extra := r.More
	for i := range r.Plan.Rates {
		if r.Of(i) == 0 {
			continue
		}
		left := a.Levels.At(i).Units / r.Plan.Rates[i].Unit
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

// fullEarlier reports whether the delays of r's limits don't follow from their levels, because another definition wrote the
// records: under that definition the bucket is full earlier, or it has other steps.
func (s *stored) fullEarlier(a *Answer, r *Request) bool {
	for i := range s.last {
		rate, l := &r.Plan.Rates[i], *a.Levels.At(i)
		if keep := s.until(i); keep > a.Now && keep < rate.storable(s.fullAt(i, rate, l, a.Now), l) || len(s.boundsOf(i)) > 0 {
			return true
		}
	}
	return false
}

// setWaits sets a.Waits. write is whether the decision is stored, which makes the definition of r's limits the last one.
func (s *stored) setWaits(a *Answer, r *Request, write bool) {
	list := make([]Waits, len(r.Plan.Rates))
	for i := range r.Plan.Rates {
		need := r.Of(i)
		if a.Allowed {
			need = 1
		}
		rate, l, holds, until := &r.Plan.Rates[i], *a.Levels.At(i), s.holdsOf(i), int64(Forever)
		if !write && s.last != nil && s.until(i) > a.Now {
			until = s.until(i) - a.Now // by then the bucket is full and its state expires
		}
		levels := []Level{l}
		if !write {
			levels = append(levels, s.boundsOf(i)...)
		}
		first := int64(0)
		if s.crowded(i, r) { // one must end, even if there are tokens
			first = holds.firstEnd() + 1 - a.Now
		}
		for _, l := range levels {
			list[i].Full = max(list[i].Full, min(until, rate.waitAround(holds, l, rate.Full, a.Now)))
			if need <= rate.Capacity {
				list[i].Retry = max(list[i].Retry, min(until, max(first, rate.waitAround(holds, l, need*rate.Unit, a.Now))))
			}
		}
	}
	a.Waits = &list
}
