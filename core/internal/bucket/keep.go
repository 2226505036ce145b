package bucket

// This file has what a decision stores, and until when that matters: until the
// bucket is full and nothing is held, and so is the same as an unused one.

// fullAt is the instant of the first step at which the i-th limit, whose level
// is l at now, is full and nothing is cut any more. With holds it may be later.
func (s *stored) fullAt(i int, rate *Rate, l Level, now int64) int64 {
	stepped, holds, cut := rate.steppedAt(l), s.holdsOf(i), s.cutOf(i)
	switch {
	case cut != nil:
		full := now + rate.wait(l, rate.Full+int64(min(Latest, rate.cutUnits(*cut))), 0, now)
		if holds.end() > 0 { // while tokens are held, what refills may have no room
			full = rate.outlast(stepped, holds.end()+1) + full - stepped
		}
		return min(Forever, full)
	case l.Units >= rate.Full:
		return stepped
	case holds == nil:
		return now + rate.wait(l, rate.Full, 0, now)
	}
	// Tokens of a hold may come back between two steps.
	return rate.outlast(stepped, min(Forever, now+rate.waitAround(holds, l, rate.Full, now)))
}

// record is the record to store of the i-th limit.
func (s *stored) record(i int, rate *Rate, a *Answer) Record {
	l := *a.Levels.At(i)
	keep := rate.storable(s.fullAt(i, rate, l, a.Now), l)
	if end := s.holdsOf(i).end(); end > 0 {
		keep = rate.outlast(keep, end+1)
	}
	r := Record{rate, l.Units, a.Now, keep, nil, s.holdsOf(i).orNil()}
	if c := s.cutOf(i); c != nil {
		own := *c
		r.Cut = &own
	}
	return r
}

// storable returns keep, a step of l, or the nearest step from 0 to 2^53, which
// is what a record can hold. It must be a step, because the next decision
// counts steps from it. Only a calendar's period can begin before 1970.
func (r *Rate) storable(keep int64, l Level) int64 {
	switch {
	case keep < Forever:
		return max(0, keep)
	case r.Calendar != nil: // a calendar's periods are counted from 1970, not from keep
		return Forever - 1
	}
	at := r.steppedAt(l)
	return at + floorTo(Forever-1-at, r.Step)
}

// outlast is keep, which is a step, or if last is later, the first step that is
// not before last: a record must be kept as long as tokens are held. Example:
// steps are 10 s, keep is 100 s, and the last hold ends at 133 s. The result is
// 140 s.
func (r *Rate) outlast(keep, last int64) int64 {
	if last <= keep {
		return keep
	}
	steps := (min(last, Forever-1) - keep + r.Step - 1) / r.Step
	switch {
	case r.Calendar != nil:
		return min(last, Forever-1)
	case keep+steps*r.Step < Forever:
		return keep + steps*r.Step
	}
	return keep + floorTo(Forever-1-keep, r.Step) // the last step that can be stored, which may be before keep
}

// records are the records to store after a decision of p's limits, with those
// of other limits, and until when they matter.
func (s *stored) records(p *LimitSet, a *Answer) (list []Record, keep int64) {
	list = make([]Record, 0, len(p.Rates)+len(s.others))
	for i := range p.Rates {
		list = append(list, s.record(i, &p.Rates[i], a))
	}
	list = append(list, s.others...)
	for i := range list {
		keep = max(keep, list[i].Keep)
	}
	return list, keep
}

// wait is how many µs after a decision the i-th limit has need units, if
// nothing is taken until then.
func (s *stored) wait(i int, rate *Rate, l Level, need, now int64) int64 {
	holds, cut := s.holdsOf(i), s.cutOf(i)
	if cut == nil || !holds.returning() { // what is cut changes only how tokens come back from holds
		return rate.waitAround(holds, l, need, now)
	}
	a := Answer{Now: now}
	a.Levels.Grow(i + 1)
	*a.Levels.At(i) = l
	r := s.record(i, rate, &a)
	return rate.waitFor(&r, need, now)
}
