package bucket

// A limit may have several definitions: a deployment changes it, two versions of a service run at once, a tier or an override
// has another Capacity. A bucket remembers what was used, whatever its Capacity is:
//
//	tokens left = Capacity - what was used
//
// A raised Capacity adds its tokens at once. A lowered one cuts what is left, but makes no debt. What it cuts comes back
// when the Capacity does.
//
// A record under a low Capacity can't say how much more was used under a high one. So the record of the earlier definition is
// stored behind the last one, as long as it matters: the "older" record. What is taken under the new definition is taken from
// both. A definition that did not write the last record has the lower level of the two, each refilled at its own rate.
//
// Example: 70 of 100 a day are used, and the limit becomes 20 a day. Half a day later one token is taken.
//
//	                 under 20 a day          the last record    the older one
//	lowered          0 left                  30 of 100          -
//	half a day on    10 left: refilled       30 of 100          -
//	one is taken     9 left                  9 of 20, now       29 of 100, from half a day ago
//
// Set back to 100 a day, the last record alone would say 89 left. The older one has refilled 50 since: 29 + 50 = 79 are left.

// refill returns the level of the i-th limit at now. It drops the holds that ended before, and sets s.older[i].next: the older
// record if this decision is stored.
func (s *stored) refill(i int, rate *Rate, now int64) Level {
	last, holds := &s.last[i], s.holdsOf(i)
	if rate.Slots { // all that is not held is there, whatever the definition
		l := Level{rate.room(holds.Held(now)), now}
		if holds != nil {
			s.holds[i] = rate.prune(holds, l, now).orNil()
		}
		return l
	}
	l := rate.since(last, last.Keep, holds, now) // as if there was no older record
	before := s.olderOf(i, now)
	if before.Tag != 0 && rate.Fill.pace() < before.Fill.pace() {
		before.At = max(before.At, min(last.At, now)) // the faster rate counts only since the last record was written
	}
	if same := rate.wrote(last); !same || before.Tag != 0 {
		var bounds []Level
		switch {
		case same || before.Tag == 0: // the last record is r's own, or the only one: its level holds
		case rate.wrote(&before): // the older record is r's own: the lower level holds
			o := rate.since(&before, Forever, holds, now)
			if o.At != l.At && l.Units < rate.Full { // the steps of the two begin at different instants
				bounds = []Level{l, o}
			}
			if o.Units <= l.Units {
				l = o
			}
		default:
			// A third definition: neither record is its own. It has what the older record leaves it, but no less than the last
			// one had, and no more than the last one leaves it.
			steps, at := rate.stepsSince(rate.Level(&before).At, now)
			left := rate.leftAfter(rate.left(&before), steps)
			steps, lastAt := rate.stepsSince(rate.Level(last).At, now)
			if at != l.At || lastAt != l.At {
				bounds = []Level{l}
			}
			l.Units = max(-rate.maxDebt, min(l.Units, max(left, rate.leftAfter(last.Tokens, steps))))
			l.At = max(l.At, at, lastAt)
		}
		s.setOlder(i, older{record: s.olderRecord(i), next: rate.mostUsed(l, last, &before, now), units: l.Units, bounds: bounds})
	}
	if holds != nil {
		s.holds[i] = rate.prune(holds, l, now)
	}
	return l
}

// earliest is when the first of the i-th limit's records no longer matters, if that is after now; otherwise when the last one doesn't.
// Until then the level refills at one rate. At that instant it may rise at once.
func (s *stored) earliest(i int, now int64) int64 {
	first := s.until(i)
	if keep := s.last[i].Keep; keep > now {
		first = min(first, keep)
	}
	if s.older != nil {
		if end := s.older[i].record.until(); end > now {
			first = min(first, end)
		}
	}
	return first
}

// shorten changes w to the delays that follow if the i-th limit's level rises before, because one of its records no longer matters.
// need is as for Waits.Retry. The limit must have no holds.
//
// Example: 83 of 100 were used at 1 a minute, then 18 of 20 at 10 a second, and now the limit is 10 at 1 a minute. Nothing is left.
// The last record matters for 1.8 s. From then on 2 tokens are left, so the bucket is full after 8 minutes and not after 10.
func (w *Waits) shorten(s *stored, i int, rate *Rate, need, now int64) {
	if s.older == nil || rate.Calendar != nil {
		return
	}
	for _, at := range [...]int64{s.last[i].Keep, s.older[i].record.until()} {
		if at <= now || at >= s.until(i) {
			continue
		}
		then := stored{last: s.last, older: make([]older, len(s.older))}
		then.older[i].record = s.older[i].record
		l, retry, full := then.refill(i, rate, at), int64(0), int64(0)
		for _, l := range append([]Level{l}, then.boundsOf(i)...) {
			full = max(full, rate.wait(l, rate.Full, 0, at))
			if need <= rate.Capacity && !rate.spares(need) {
				retry = max(retry, rate.wait(l, need*rate.Unit, 0, at))
			}
		}
		w.Retry, w.Full = min(w.Retry, at-now+retry), min(w.Full, at-now+full)
	}
}

// since is the level at now that follows from s. s matters until the instant until: then the bucket is full, whatever its Capacity
// has become, and its steps begin with its next use.
func (r *Rate) since(s *Record, until int64, holds *Holds, now int64) Level {
	switch {
	case until <= now:
		return Level{r.room(holds.Held(now)), now}
	case holds == nil:
		return r.refill(r.Level(s), 0, now)
	}
	return r.refillAround(holds, r.Level(s), s.At, now)
}

// mostUsed returns the record that must be stored behind one of level l, to be the older one: last or before, whichever leaves r
// fewer tokens. If neither leaves it less than l, it returns a record without a Tag.
//
// If r refills no slower than that record's definition, what r has refilled until now is added to the record. Otherwise the record
// stays, and a later decision counts the time since, at the rate of the definition that it is decided by. The example above is one.
func (r *Rate) mostUsed(l Level, last, before *Record, now int64) (chosen Record) {
	least := l.Units
	for _, s := range [...]*Record{last, before} {
		if s.Tag == 0 || s == last && s.Keep <= now {
			continue
		}
		steps, at := r.stepsSince(r.Level(s).At, now)
		if left := r.leftAfter(r.left(s), steps); left < least {
			least, chosen = left, *s
			chosen.At = min(s.At, now)
			if r.Fill.pace() <= s.Fill.pace() {
				gained := float64(float64(steps)*float64(r.Gain)) / float64(r.Unit)
				chosen.Tokens, chosen.At = min(s.Tokens+gained, float64(s.Fill.Capacity)), min(at, now)
			}
		}
	}
	return chosen
}

// leftAfter is tokens plus the gain of so many steps, in units. It is not bounded as a level is: it may be above the Capacity, and
// below 0 where a lower Capacity makes no debt.
func (r *Rate) leftAfter(tokens float64, steps int64) int64 {
	const most = 1 << 52
	gained := min(most, float64(float64(steps)*float64(r.Gain)))
	return int64(max(-most, min(most, floorUnits(tokens*float64(r.Unit))))) + int64(gained)
}

// nextOlder is the older record to store behind the new one of the i-th limit: the one that refill chose, charged with what r
// took. It has no Tag if there is none.
func (s *stored) nextOlder(i int, rate *Rate, a *Answer) Record {
	if s.older == nil || s.older[i].next.Tag == 0 {
		return Record{}
	}
	chosen := s.older[i].next
	taken := float64(s.older[i].units-a.Levels.At(i).Units) / float64(rate.Unit)
	chosen.Tokens = max(-Forever, min(chosen.Tokens-taken+s.older[i].uncredited, float64(chosen.Fill.Capacity)))
	if chosen.until() <= a.Now {
		return Record{}
	}
	return chosen
}
