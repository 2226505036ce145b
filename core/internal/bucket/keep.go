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
	tokens := float64(l.Units) / float64(rate.Unit)
	keep, fill := rate.storable(s.fullAt(i, rate, l, a.Now), l), rate.Fill
	if s.holds != nil || s.own != nil && s.own[i].Fill != fill && s.own[i].Keep > a.Now {
		keep, fill = s.keepForAll(i, rate, tokens, keep, a.Now)
	}
	return Record{rate.Tag, rate.Steps, fill, tokens, a.Now, keep, s.holdsOf(i).kept()}
}

// storable is the step of l at keep, or, if that is after the last instant that a record can hold, the last step before.
// It must be a step, because the next decision counts steps from it.
func (r *Rate) storable(keep int64, l Level) int64 {
	switch {
	case keep < Forever:
		return keep
	case r.Calendar != nil: // which needs no step here
		return Forever - 1
	}
	at := r.steppedAt(l)
	return at + floorTo(Forever-1-at, r.Step)
}

// keepForAll is until when a record with so many tokens matters to all definitions that wrote it since it was full, and
// as long as any tokens are held: `full`, or a number of steps later. It also returns the fill of all of them.
func (s *stored) keepForAll(i int, rate *Rate, tokens float64, full, now int64) (keep int64, all Fill) {
	all, last := rate.Fill, int64(0)
	holds := s.holdsOf(i)
	if end := holds.end(); end > 0 {
		last = end + 1
	}
	if own := s.own[i]; own.Fill != all && own.Keep > now {
		all = all.and(own.Fill)
		until := now + all.from(tokens)
		if last > 0 { // the holds may have kept the bucket from filling up until their end
			until = max(until, last+all.from(float64(rate.Capacity-holds.Held(now))))
		}
		// After a cut the fill may stand for less time than a step of another definition takes. So the record matters no
		// shorter than before, unless a debt came back.
		if all.Pace < 0 && own.Tokens >= min(tokens, 0) {
			until = max(until, own.Keep)
		}
		last = max(last, until)
	}
	if last > full {
		steps := (min(last, Forever-1) - full + rate.Step - 1) / rate.Step
		switch {
		case rate.Calendar != nil:
			full = min(last, Forever-1)
		case full+steps*rate.Step < Forever:
			full += steps * rate.Step
		default: // the last step before; full itself may be later
			full += floorTo(Forever-1-full, rate.Step)
		}
	}
	return full, all
}

// records are what must be stored after a decision of p's limits, and until when they matter.
func (s *stored) records(p *Plan, a *Answer) (list []Record, keep int64) {
	list = make([]Record, 0, len(p.Rates)+len(s.others))
	for i := range p.Rates {
		list = append(list, s.record(i, &p.Rates[i], a))
		keep = max(keep, list[len(list)-1].Keep)
	}
	before := uint32(0)
	for _, other := range s.others {
		if list = append(list, other); other.Tag != before { // a level; its holds end before its Keep
			before, keep = other.Tag, max(keep, other.Keep)
		}
	}
	return list, keep
}
