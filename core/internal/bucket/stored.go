package bucket

import "slices"

// MaxOthers bounds the limits that a key is kept for besides those of the
// request at hand.
const MaxOthers = 256

// stored is the state of a key, in the order of a set's rates. The zero value
// is the state of a key that does not exist.
type stored struct {
	last   []Record // the record of each rate; without a Rate: the limit was not used yet, so it is full
	holds  []*Holds // of each rate, as they are now; nil: there are none
	cuts   []Cut    // of each rate, as they are now; nil: there are none
	others []Record // the records of limits that the set does not have
}

// arrange puts the key's records into s, in the order of p's rates. It keeps
// the records of other limits as long as they matter: two versions of a policy
// may be in use at once. In the usual case, one record for each rate, it
// allocates nothing.
func (s *stored) arrange(p *LimitSet, records []Record, now int64) error {
	if matches(p, records) {
		s.last = records
		return nil
	}
	s.last = make([]Record, len(p.Rates))
	seen := make(map[uint32]bool)
	for _, r := range records {
		tag := r.Tag()
		if tag == 0 || seen[tag] {
			return ErrUnreadable
		}
		seen[tag] = true
		if i := p.IndexOf(tag); i >= 0 {
			s.last[i] = r
			if r.Holds != nil {
				s.setHolds(i, r.Holds)
			}
		} else if r.Keep > now {
			if s.others = append(s.others, r); len(s.others) > MaxOthers {
				return ErrCrowded
			}
		}
	}
	return nil
}

func (s *stored) holdsOf(i int) *Holds {
	if s.holds == nil {
		return nil
	}
	return s.holds[i]
}

func (s *stored) held() bool {
	return slices.ContainsFunc(s.holds, func(h *Holds) bool { return h != nil })
}

// hold returns the holds on the tokens of r's i-th limit, and makes them if
// there are none. l is the limit's level.
func (s *stored) hold(i int, r *Request, l Level) *Holds {
	if s.last == nil {
		s.last = make([]Record, len(r.Set.Rates))
	}
	if s.holdsOf(i) == nil {
		s.setHolds(i, &Holds{stepping: r.Set.Rates[i].stepping(l)})
	}
	return s.holds[i]
}

func (s *stored) setHolds(i int, holds *Holds) {
	if s.holds == nil {
		s.holds = make([]*Holds, len(s.last))
	}
	s.holds[i] = holds
}

func (s *stored) cutOf(i int) *Cut {
	if s.cuts == nil || s.cuts[i].Tokens <= 0 {
		return nil
	}
	return &s.cuts[i]
}

func (s *stored) setCut(i int, c Cut) {
	if s.cuts == nil && c.Tokens > 0 {
		s.cuts = make([]Cut, len(s.last))
	}
	if s.cuts != nil {
		s.cuts[i] = c
	}
}

// matches reports whether records are one for each of p's rates, in their
// order, without holds.
func matches(p *LimitSet, records []Record) bool {
	if len(records) != len(p.Rates) {
		return false
	}
	for i := range records {
		if records[i].Tag() != p.Rates[i].Tag || records[i].Holds != nil {
			return false
		}
	}
	return true
}
