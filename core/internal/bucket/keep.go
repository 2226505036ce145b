package bucket

// fullAt is the step with which the i-th limit will be full, if nobody takes from it.
func (s *stored) fullAt(i int, rate *Rate, l Level, now int64) int64 {
	if l.Units >= rate.Full {
		return rate.steppedAt(l)
	}
	if s.holds == nil {
		return now + rate.wait(l, rate.Full, 0, now)
	}
	return now + rate.waitAround(s.holds[i], l, rate.Full, now)
}

// record is what must be stored of the i-th limit.
func (s *stored) record(i int, rate *Rate, a *Answer) Record {
	l := *a.Levels.At(i)
	keep := rate.storable(s.fullAt(i, rate, l, a.Now), l)
	if end := s.holdsOf(i).end(); end > 0 {
		keep = rate.outlast(keep, end+1)
	}
	return Record{rate.Tag, rate.Steps, rate.Fill, float64(l.Units) / float64(rate.Unit), a.Now, keep, nil}
}

// storable is the step of l at keep, or, if that is after the last instant that a record can hold, the last step before.
// It must be a step, because the next decision counts steps from it. Only a period of a calendar can begin before 1970.
func (r *Rate) storable(keep int64, l Level) int64 {
	switch {
	case keep < Forever:
		return max(0, keep)
	case r.Calendar != nil: // which needs no step here
		return Forever - 1
	}
	at := r.steppedAt(l)
	return at + floorTo(Forever-1-at, r.Step)
}

// outlast is keep, or the first step after it that is not before last: the record matters as long as any tokens are held.
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
	return keep + floorTo(Forever-1-keep, r.Step) // the last step before; keep itself may be later
}

// records are what must be stored after a decision of p's limits, and until when they matter.
func (s *stored) records(p *Plan, a *Answer) (list []Record, keep int64) {
	list = make([]Record, 0, len(p.Rates)+len(s.others))
	for i := range p.Rates {
		list = append(list, s.record(i, &p.Rates[i], a))
		keep = max(keep, list[len(list)-1].Keep)
		if beside := s.beside(i, &p.Rates[i], a); beside.Tag != 0 {
			list = append(list, beside)
			keep = max(keep, beside.until())
		}
		list[len(list)-1].Holds = s.holdsOf(i).kept()
	}
	for _, other := range s.others {
		if list = append(list, other); other.Fill != (Fill{}) { // a level; its holds end before its Keep
			keep = max(keep, other.Keep, other.until())
		}
	}
	return list, keep
}
