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

// fullEarlier reports whether the delays of r's limits don't follow from their levels, because another definition wrote the
// records: under that definition the bucket is full earlier, or it has other steps.
func (s *stored) fullEarlier(a *Answer, r *Request) bool {
	for i := range s.last {
		rate, l := &r.Plan.Rates[i], *a.Levels.At(i)
		if first := s.earliest(i, a.Now); first > a.Now && first < rate.storable(s.fullAt(i, rate, l, a.Now), l) || len(s.boundsOf(i)) > 0 {
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
			if need <= rate.Capacity && !rate.spares(need) {
				list[i].Retry = max(list[i].Retry, min(until, max(first, rate.waitAround(holds, l, need*rate.Unit, a.Now))))
			}
		}
		if !write && holds == nil {
			list[i].shorten(s, i, rate, need, a.Now)
		}
	}
	a.Waits = &list
}
