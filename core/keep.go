package core

// What is stored after a decision, and for how long.

// fullAt is the step with which the i-th limit will be full, if nobody takes from it.
func (s *stored) fullAt(i int, rate *rate, l level, now int64) int64 {
	if l.units >= rate.full {
		return rate.steppedAt(l)
	}
	if s.holds == nil {
		return now + rate.wait(l, rate.full, 0, now)
	}
	return now + rate.waitAround(s.holds[i], l, rate.full, now)
}

// record writes the i-th limit's level, and returns until when it must be stored.
func (s *stored) record(to *record, i int, rate *rate, a *Answer) (keep int64) {
	l := *a.levels.at(i)
	tokens := float64(l.units) / float64(rate.unit)
	keep = s.fullAt(i, rate, l, a.now)
	all := rate.fill
	if s.holds != nil || s.own != nil && s.own[i].fill != all && s.own[i].keep > a.now {
		keep, all = s.keepForAll(i, rate, tokens, keep, a.now)
	}
	keep = min(keep, forever-1)
	*to = record{rate.tag, rate.steps, all, tokens, a.now, keep}
	return keep
}

// keepForAll is until when a record with so many tokens matters to all definitions that wrote it since it was full,
// and as long as anything is held: full, or a number of steps later.
func (s *stored) keepForAll(i int, rate *rate, tokens float64, full, now int64) (keep int64, all fill) {
	all, last := rate.fill, int64(0)
	holds := s.holdsOf(i)
	if len(holds) > 0 && holds[len(holds)-1].at > now {
		last = holds[len(holds)-1].at + 1
	}
	if own := s.own[i]; own.fill != all && own.keep > now {
		all = all.and(own.fill)
		fill := now + all.from(tokens)
		if last > 0 { // which may have kept it below its capacity less what is held
			fill = max(fill, last+all.from(float64(rate.capacity-held(holds, now))))
		}
		last = max(last, fill)
	}
	if last > full {
		steps := (min(last, forever-1) - full + rate.step - 1) / rate.step
		if full+steps*rate.step >= forever {
			steps = (forever - 1 - full) / rate.step
		}
		full += steps * rate.step
	}
	return full, all
}

// records appends to list what must be stored after a decision of p's limits, and tells until when.
func (s *stored) records(list []record, p *plan, a *Answer) (_ []record, keep int64) {
	for i := range p.rates {
		list = append(list, record{})
		keep = max(keep, s.record(&list[len(list)-1], i, &p.rates[i], a))
		for _, h := range s.holdsOf(i) {
			list = append(list, record{tag: p.rates[i].tag, tokens: float64(h.tokens), at: h.at, keep: h.ticket})
		}
	}
	before := uint32(0)
	for _, other := range s.others {
		if list = append(list, other); other.tag != before { // a level; holds end before its keep
			before, keep = other.tag, max(keep, other.keep)
		}
	}
	return list, keep
}
