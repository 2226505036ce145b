package bucket

import "slices"

// Decide decides r at the instant now, and sets a. records are the key's stored
// records; nil if there are none. If the state changes, Decide returns the
// records to store, and until when they matter. Otherwise next is nil. It
// returns an error if it can't use the records.
//
// A denied request changes nothing, with two exceptions. If the clock stepped
// back, the new instant must be stored: otherwise nothing would refill until
// the clock reaches the old one again. And the first request under another
// definition stores the level as one of that definition, so that its rate
// counts from then on.
func (r *Request) Decide(a *Answer, records []Record, now int64) (next []Record, keep int64, err error) {
	s := stored{}
	if records != nil {
		if err := s.arrange(r.Set, records, now); err != nil {
			return nil, 0, err
		}
	}
	if write := r.decide(a, &s, now); !write {
		a.Unused = records == nil && r.Action == Take && a.Allowed && !r.Moves()
		return nil, 0, nil
	}
	next, keep = s.records(r.Set, a)
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
	return AppendRecords(make([]byte, 0, RecordSize*len(records)), records), keep, nil
}

// decide decides r, sets a and changes s. It reports whether s must be stored.
// It refills, ends holds, and then does the action.
func (r *Request) decide(a *Answer, s *stored, now int64) bool {
	rates := r.Set.Rates
	a.Allowed = true
	write, changed := s.refillAll(r.Set, a, now)
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
				s.credit(i, a, r.Set, n)
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
		a.Allowed = s.grants(a, r)
		switch takes := a.Allowed && r.Moves(); {
		case takes && !r.Dry:
			s.charge(a, r)
			write = true
		case !takes && (!r.Dry || r.Probe):
			write = write || changed
		}
	case End:
	}
	if r.Takes() && s.held() || !write && changed { // callers of the others need no waits
		s.setWaits(a, r, write)
	}
	return write
}

// refillAll sets a's levels to those of now. It reports whether s must be
// stored because the clock has stepped back, and whether another definition
// wrote a record. A limit that was not used yet starts full, and its steps
// begin here.
func (s *stored) refillAll(p *LimitSet, a *Answer, now int64) (write, changed bool) {
	a.Now = now
	a.Levels.Grow(len(p.Rates))
	for i := range p.Rates {
		rate, l := &p.Rates[i], a.Levels.At(i)
		if s.last == nil || s.last[i].Rate == nil {
			*l = Level{rate.Full, now}
			continue
		}
		if s.last[i].At > now {
			write = s.stepBack(i, rate, now) || write
		}
		same := true
		*l, same = s.refill(i, rate, now)
		changed = changed || !same
	}
	return write, changed
}

// refill returns the level of the i-th limit at now, and reports whether its
// definition wrote the record. It drops the holds that ended before.
func (s *stored) refill(i int, rate *Rate, now int64) (l Level, same bool) {
	holds := s.holdsOf(i)
	if rate.Slots { // all that is not held is there, whatever the definition
		l = Level{rate.room(holds.Held(now)), now}
		if holds != nil {
			s.holds[i] = rate.prune(holds, l, now).orNil()
		}
		return l, true
	}
	l, c, same := rate.levelAt(&s.last[i], now)
	s.setCut(i, c)
	if holds != nil {
		s.holds[i] = rate.prune(holds, l, now)
	}
	return l, same
}

// stepBack moves the stored instants of the i-th limit back to now, to which
// the clock has stepped back: nothing refills for the time between. It reports
// whether the change must be stored.
//
// If the last step is ahead of now, the steps begin again at now. Leases keep
// their remaining time, and reservations the number of steps until they are
// due. Those that were due at once still hold nothing.
//
// Example: steps are at 60 s and 120 s, and the clock steps from 130 s back to
// 40 s. If the limit is aligned, its next step is at 60 s. Otherwise the step
// at 120 s moves to 40 s, and the next one is at 100 s.
func (s *stored) stepBack(i int, rate *Rate, now int64) bool {
	own, holds := &s.last[i], s.holdsOf(i)
	rate = rate.writer(own)
	by, steps := own.At-now, int64(0)
	if last := rate.steppedAt(rate.Level(own)); last > now && !rate.foreign {
		steps = last - rate.steppedAt(Level{At: now})
	} else if holds == nil {
		return false
	}
	c, periods := rate.Calendar, int64(0)
	if c != nil && steps > 0 {
		periods = c.Number(own.At) - c.Number(now)
		steps = own.Keep - c.Earlier(own.Keep, periods)
	}
	own.Keep -= min(steps, by)
	own.At = now
	switch {
	case rate.foreign:
		steps = by
	case rate.Aligned:
		steps = by - by%rate.Step
	}
	if holds == nil {
		return true
	}
	moved := append(slices.Clone(holds.front), holds.inPages()...)
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
	holds = holdsOf(moved, now)
	holds.moved = true
	own.Holds, s.holds[i] = holds, holds
	return true
}

// setWaits sets a.Waits. write is whether the decision is stored. If it is not,
// the definitions that wrote the stored records refill them.
func (s *stored) setWaits(a *Answer, r *Request, write bool) {
	list := make([]Waits, len(r.Set.Rates))
	for i := range r.Set.Rates {
		need := r.Of(i)
		if a.Allowed {
			need = 1
		}
		rate, l, until := &r.Set.Rates[i], *a.Levels.At(i), int64(Forever)
		wait := func(need int64) int64 { return s.wait(i, rate, l, need, a.Now) }
		if !write && s.last != nil && s.last[i].Rate != nil && s.last[i].Keep > a.Now {
			until = s.last[i].Keep - a.Now // by then the bucket is full and its state expires
			if !rate.Slots && !rate.Same(s.last[i].Rate) {
				wait = func(need int64) int64 { return rate.waitFor(&s.last[i], need, a.Now) }
			}
		}
		list[i].Full = min(until, wait(rate.Full))
		if need <= rate.Capacity && !rate.spares(need) {
			list[i].Retry = min(until, wait(need*rate.Unit))
			if s.crowded(i, r) { // one must end, even if there are tokens
				list[i].Retry = max(list[i].Retry, s.holdsOf(i).firstEnd()+1-a.Now)
			}
		}
	}
	a.Waits = &list
}
