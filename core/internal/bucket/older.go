package bucket

// A limit may have several definitions: a deployment changes it, two versions of a service run at once, a tier or an override
// has another Capacity. A bucket remembers what was used, whatever its Capacity is:
//
//	tokens left = Capacity - what was used
//
// A raised Capacity adds its tokens at once. A lowered one cuts what is left, but makes no debt. What it cuts comes back
// when the Capacity does.
//
// A record under a low Capacity can't say how much more was used under a high one. So the record before stays beside it as
// long as it matters, and what is taken under the new definition is taken from both. A definition that did not write the last
// record has the lower level of the two, each refilled at its own rate.
//
// Example: 70 of 100 a day are used, and the limit becomes 20 a day. Half a day later one token is taken.
//
//	                 under 20 a day          the last record    beside it
//	lowered          0 left                  30 of 100          -
//	half a day on    10 left: refilled       30 of 100          -
//	one is taken     9 left                  9 of 20, now       29 of 100, from half a day ago
//
// Set back to 100 a day, the first alone would say 89 left. The other has refilled 50 since: 29 + 50 = 79 are left.

// refill returns the level of the i-th limit at an instant. It forgets the holds that ended before, and sets what stays
// beside the record that follows.
func (s *stored) refill(i int, rate *Rate, now int64) Level {
	last, holds := &s.own[i], s.holdsOf(i)
	l := rate.since(last, last.Keep, holds, now)
	beside := s.olderOf(i, now)
	if beside.Tag != 0 && rate.Fill.pace() < beside.Fill.pace() {
		beside.At = max(beside.At, min(last.At, now)) // the faster rate holds since the last record was written
	}
	if same := rate.wrote(last); !same || beside.Tag != 0 {
		var also []Level
		switch {
		case same || beside.Tag == 0:
		case rate.wrote(&beside):
			o := rate.since(&beside, Forever, holds, now)
			if o.At != l.At && l.Units < rate.Full { // the steps of the two begin at different instants
				also = []Level{l, o}
			}
			if o.Units <= l.Units {
				l = o
			}
		default:
			// A third definition has what the record beside the last one leaves it, but no less than the last one had.
			steps, at := rate.stepsSince(rate.Level(&beside).At, now)
			left := rate.leftAfter(rate.left(&beside), steps)
			steps, lastAt := rate.stepsSince(rate.Level(last).At, now)
			if at != l.At || lastAt != l.At {
				also = []Level{l}
			}
			l.Units = max(-rate.deepest, min(l.Units, max(left, rate.leftAfter(last.Tokens, steps))))
			l.At = max(l.At, at, lastAt)
		}
		s.setOlder(i, older{record: s.recordBeside(i), kept: rate.deeper(l, last, &beside, now), units: l.Units, also: also})
	}
	if holds != nil {
		s.holds[i] = rate.prune(holds, l, now)
	}
	return l
}

// since is the level at an instant that follows from s, which matters until then. A limit that was full under the definition
// that wrote it is as one that was never used: its bucket is full, whatever its Capacity has become, and its steps begin with
// its next use.
func (r *Rate) since(s *Record, until int64, holds *Holds, now int64) Level {
	switch {
	case until <= now:
		return Level{r.room(holds.Held(now)), now}
	case holds == nil:
		return r.refill(r.Level(s), 0, now)
	}
	return r.refillAround(holds, r.Level(s), s.At, now)
}

// deeper returns the record that must stay beside one of level l: of those that are given, the one that says that most is
// used, if that is more than l says. Else it returns a record without a Tag. If r refills no slower than the
// record's definition, what r has refilled is added to it.
func (r *Rate) deeper(l Level, last, beside *Record, now int64) (kept Record) {
	least := l.Units
	for _, s := range [...]*Record{last, beside} {
		if s.Tag == 0 || s == last && s.Keep <= now {
			continue
		}
		steps, at := r.stepsSince(r.Level(s).At, now)
		if left := r.leftAfter(r.left(s), steps); left < least {
			least, kept = left, *s
			kept.At = min(s.At, now)
			if r.Fill.pace() <= s.Fill.pace() {
				gained := float64(float64(steps)*float64(r.Gain)) / float64(r.Unit)
				kept.Tokens, kept.At = min(s.Tokens+gained, float64(s.Fill.Capacity)), min(at, now)
			}
		}
	}
	return kept
}

// leftAfter is so many tokens after some steps, in units. It is below 0 where a lower Capacity makes no debt, and as large
// as the bucket or larger where that is full.
func (r *Rate) leftAfter(tokens float64, steps int64) int64 {
	const most = 1 << 52
	gained := min(most, float64(float64(steps)*float64(r.Gain)))
	return int64(max(-most, min(most, floorUnits(tokens*float64(r.Unit))))) + int64(gained)
}

// beside is what must be stored beside the record of the i-th limit: what stays of the records before, charged with what r
// took. It has no Tag if there is nothing.
func (s *stored) beside(i int, rate *Rate, a *Answer) Record {
	if s.older == nil || s.older[i].kept.Tag == 0 {
		return Record{}
	}
	kept := s.older[i].kept
	taken := float64(s.older[i].units-a.Levels.At(i).Units) / float64(rate.Unit)
	kept.Tokens = max(-Forever, min(kept.Tokens-taken+s.older[i].lost, float64(kept.Fill.Capacity)))
	if kept.until() <= a.Now {
		return Record{}
	}
	return kept
}
