package bucket

// MaxOthers bounds the limits that a key is kept for besides those of the request at hand.
const MaxOthers = 256

// stored is a key's records, in the order of a plan's rates. Its zero value is that of a key that does not exist.
type stored struct {
	own    []Record // the last level of each rate; Tag 0: the limit was not used yet, so it starts full
	older  []older  // of each rate; nil: there are none
	holds  []*Holds // on each rate's tokens; nil when there are none on any
	others []Record // of limits that the plan does not have
}

// older is the record of an earlier definition beside a limit's last one.
type older struct {
	record Record  // as it is stored; Tag 0: there is none
	kept   Record  // what stays of it, or of the last record, if r is allowed; Tag 0: nothing
	units  int64   // the limit's level when r began
	lost   float64 // tokens that came back and had no room in the limit's bucket
	also   []Level // levels with other steps, which bound the limit's as well
}

// arrange puts records into the order of p's rates, in s. Records of other limits are kept as long as they matter: when
// two versions of a policy are in use at once, neither forgets what the other's limits lost. The common case, one
// record for each rate, costs no allocation, and s.own is records then.
func (s *stored) arrange(p *Plan, records []Record, now int64) error {
	if matches(p, records) {
		s.own = records
		return nil
	}
	s.own = make([]Record, len(p.Rates))
	seen, others := make(map[uint32]bool), 0
	for len(records) > 0 {
		// A level, that of an earlier definition, and the holds that follow in the former layout
		level, rest, earlier := records[0], records[1:], Record{}
		holds := level.Holds
		if len(rest) > 0 && rest[0].Tag == level.Tag && rest[0].Fill.Pace != 0 && holds == nil {
			earlier, rest = rest[0], rest[1:]
			holds = earlier.Holds
		}
		n := 0
		for n < len(rest) && rest[n].Tag == level.Tag {
			n++
		}
		if level.Tag == 0 || seen[level.Tag] || n > 0 && holds != nil {
			return ErrUnreadable
		}
		if n > 0 {
			if holds = formerHolds(rest[:n], level.At); holds == nil {
				return ErrUnreadable
			}
		}
		seen[level.Tag] = true
		if i := p.indexOf(level.Tag); i >= 0 {
			s.own[i] = level
			if earlier.Tag != 0 {
				s.setOlder(i, older{record: earlier})
			}
			if holds != nil {
				s.setHolds(i, holds)
			}
		} else if max(level.Keep, earlier.until()) > now {
			if others++; others > MaxOthers {
				return ErrCrowded
			}
			s.others = append(s.others, records[:len(records)-len(rest)+n]...)
		}
		records = rest[n:]
	}
	return nil
}

// holdsOf returns the holds on the i-th rate's tokens.
func (s *stored) holdsOf(i int) *Holds {
	if s.holds == nil {
		return nil
	}
	return s.holds[i]
}

// hold returns the holds on the i-th rate's tokens, whose level is l, for adding one.
func (s *stored) hold(i int, rate *Rate, l Level) *Holds {
	if s.holdsOf(i) == nil {
		s.setHolds(i, &Holds{form: rate.form(l)})
	}
	return s.holds[i]
}

// setHolds sets the holds on the i-th rate's tokens.
func (s *stored) setHolds(i int, holds *Holds) {
	if s.holds == nil {
		s.holds = make([]*Holds, len(s.own))
	}
	s.holds[i] = holds
}

// matches reports whether records are the levels of p's rates, in their order, and nothing else.
func matches(p *Plan, records []Record) bool {
	if len(records) != len(p.Rates) {
		return false
	}
	for i := range records {
		if records[i].Tag != p.Rates[i].Tag || records[i].Holds != nil {
			return false
		}
	}
	return true
}

// setOlder sets what the i-th limit has beside its last record.
func (s *stored) setOlder(i int, o older) {
	if s.older == nil {
		s.older = make([]older, len(s.own))
	}
	s.older[i] = o
}

// olderOf returns the record beside the last one of the i-th limit, if it matters at an instant, or a record without a Tag.
func (s *stored) olderOf(i int, now int64) Record {
	if s.older == nil || s.older[i].record.until() <= now {
		return Record{}
	}
	record := s.older[i].record
	record.At = min(record.At, now) // the clock may have stepped back
	return record
}

// until is when all that is stored of the i-th limit is full, under the definitions that wrote it.
func (s *stored) until(i int) int64 {
	if s.older == nil {
		return s.own[i].Keep
	}
	return max(s.own[i].Keep, s.older[i].record.until())
}

// alsoOf returns older.also of the i-th limit.
func (s *stored) alsoOf(i int) []Level {
	if s.older == nil {
		return nil
	}
	return s.older[i].also
}

// recordBeside is the record that is stored beside the last one of the i-th limit.
func (s *stored) recordBeside(i int) Record {
	if s.older == nil {
		return Record{}
	}
	return s.older[i].record
}

// formerHolds reads holds of the former layout: records behind that of their limit's level, written at an instant. Their Keep is
// the ticket. It returns nil if this package did not write them.
func formerHolds(records []Record, written int64) *Holds {
	var list []hold
	before, sum := int64(0), 0.0
	for _, s := range records {
		whole := s.Tokens >= 1 && s.Tokens == float64(int64(s.Tokens))
		if sum += s.Tokens; !whole || sum > MaxHeld || s.At < before || s.Keep == 0 || s.Steps != 0 || s.Fill != (Fill{}) || s.Holds != nil {
			return nil
		}
		before = s.At
		list = append(list, hold{s.At, s.Keep, int64(s.Tokens)})
	}
	return holdsOf(list, written)
}
