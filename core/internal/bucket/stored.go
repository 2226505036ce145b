package bucket

import "slices"

// MaxOthers bounds the limits that a key is kept for besides those of the request at hand.
const MaxOthers = 256

// stored is the state of a key, in the order of a plan's rates. The zero value is the state of a key that does not exist.
type stored struct {
	last   []Record // the last record of each rate; Tag 0: the limit was not used yet, so it is full
	older  []older  // of each rate; nil: there are none
	holds  []*Holds // of each rate; nil: there are none
	others []Record // the records of limits that the plan does not have
}

// older is the record of an earlier definition behind a limit's last one: see older.go.
type older struct {
	record     Record  // as it is stored; Tag 0: there is none
	next       Record  // what will be the older record if the decision is stored: this one, or the last one; Tag 0: none
	units      int64   // the limit's level before r takes or returns tokens
	uncredited float64 // tokens that came back and had no room in the limit's bucket
	bounds     []Level // if the steps of two records begin at different instants, their levels: a wait is the longest of any
}

// arrange puts the key's records into s, in the order of p's rates. It keeps the records of other limits as long as they matter:
// two versions of a policy may be in use at once, and each must find its own. In the usual case, one record for each rate, s.last
// is records, and nothing is allocated.
func (s *stored) arrange(p *Plan, records []Record, now int64) error {
	if matches(p, records) {
		s.last = records
		return nil
	}
	s.last = make([]Record, len(p.Rates))
	seen, others := make(map[uint32]bool), 0
	for len(records) > 0 {
		// Next are the last record of a limit, perhaps an older one, and in the former layout records that are holds.
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
		if i := p.IndexOf(level.Tag); i >= 0 {
			s.last[i] = level
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

// held reports whether any of the rates has holds.
func (s *stored) held() bool {
	return slices.ContainsFunc(s.holds, func(h *Holds) bool { return h != nil })
}

// hold returns the holds on the tokens of r's i-th limit, and makes them if there are none. l is the limit's level.
func (s *stored) hold(i int, r *Request, l Level) *Holds {
	if s.last == nil {
		s.last = make([]Record, len(r.Plan.Rates))
	}
	if s.holdsOf(i) == nil {
		s.setHolds(i, &Holds{stepping: r.Plan.Rates[i].stepping(l)})
	}
	return s.holds[i]
}

// setHolds sets the holds on the i-th rate's tokens.
func (s *stored) setHolds(i int, holds *Holds) {
	if s.holds == nil {
		s.holds = make([]*Holds, len(s.last))
	}
	s.holds[i] = holds
}

// matches reports whether records are one for each of p's rates, in their order, without holds.
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

// setOlder sets the older record of the i-th limit.
func (s *stored) setOlder(i int, o older) {
	if s.older == nil {
		s.older = make([]older, len(s.last))
	}
	s.older[i] = o
}

// olderOf returns the older record of the i-th limit if it matters at now; otherwise a record without a Tag.
func (s *stored) olderOf(i int, now int64) Record {
	if s.older == nil || s.older[i].record.until() <= now {
		return Record{}
	}
	record := s.older[i].record
	record.At = min(record.At, now, s.last[i].At) // the clock may have stepped back; and it was written before the last one
	return record
}

// until is when the i-th limit's records no longer matter: all are full under the definitions that wrote them.
func (s *stored) until(i int) int64 {
	if s.older == nil {
		return s.last[i].Keep
	}
	return max(s.last[i].Keep, s.older[i].record.until())
}

// boundsOf returns older.bounds of the i-th limit.
func (s *stored) boundsOf(i int) []Level {
	if s.older == nil {
		return nil
	}
	return s.older[i].bounds
}

// olderRecord is the older record of the i-th limit, as it is stored.
func (s *stored) olderRecord(i int) Record {
	if s.older == nil {
		return Record{}
	}
	return s.older[i].record
}

// formerHolds reads holds in the layout of earlier versions, where each was a record: At was its end, and Keep its ticket. They
// stand behind their limit's record, which was written at the instant written. It returns nil for bytes of any other origin.
func formerHolds(records []Record, written int64) *Holds {
	var list []hold
	before, sum := int64(0), 0.0
	for _, s := range records {
		whole := s.Tokens >= 1 && s.Tokens == float64(int64(s.Tokens))
		if sum += s.Tokens; !whole || sum > MaxHeld || s.At < before || s.Keep == 0 || s.StepsHash != 0 || s.Fill != (Fill{}) || s.Holds != nil {
			return nil
		}
		before = s.At
		list = append(list, hold{s.At, s.Keep, int64(s.Tokens)})
	}
	return holdsOf(list, written)
}
