package bucket

import "slices"

// MaxOthers bounds the limits that a key is kept for besides those of the request at hand.
const MaxOthers = 256

// stored is a key's records, in the order of a plan's rates. Its zero value is that of a key that does not exist.
type stored struct {
	own    []Record // the level of each rate; Tag 0: the limit was not used yet, so it starts full
	holds  []*Holds // on each rate's tokens; nil when there are none on any
	others []Record // of limits that the plan does not have
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
		// A level, and the holds that follow it in the former layout
		level, rest := records[0], records[1:]
		n := 0
		for n < len(rest) && rest[n].Tag == level.Tag {
			n++
		}
		holds, ok := formerHolds(rest[:n], level.At)
		if !ok || level.Tag == 0 || seen[level.Tag] || n > 0 && level.Holds != nil {
			return ErrUnreadable
		}
		seen[level.Tag] = true
		if i := p.indexOf(level.Tag); i >= 0 {
			s.own[i] = level
			if level.Holds != nil {
				holds = level.Holds
			}
			if holds != nil {
				s.setHolds(i, holds)
			}
		} else if level.Keep > now {
			if others++; others > MaxOthers {
				return ErrCrowded
			}
			s.others = append(s.others, records[:1+n]...)
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

// fit corrects what is stored of the i-th limit if rate has room for fewer tokens.
func (s *stored) fit(i int, rate *Rate) {
	room := float64(rate.room(s.holdsOf(i).Held(s.own[i].At))) / float64(rate.Unit)
	s.cut(i, rate, s.own[i].Tokens-room)
}

// cut corrects what is stored of the i-th limit, for which rate has so many tokens too many. A bucket lacks as much as its
// tokens are below the Capacity of its Fill. It lacks no more because a lower Capacity cuts the tokens, so that cuts the other
// as well. What is cut is there again for an override that adds to the Capacity.
func (s *stored) cut(i int, rate *Rate, tokens float64) {
	own := s.own[i]
	if tokens <= 0 || own.Tag == 0 || own.Fill.Capacity == rate.Fill.Capacity {
		return
	}
	own.Fill.Capacity = upTo32(max(float64(rate.Capacity), float64(own.Fill.Capacity)-tokens))
	s.own = slices.Clone(s.own) // the records are the caller's, who keeps them if r is denied
	s.own[i] = own
}

// formerHolds reads holds of the former layout: records behind that of their limit's level, written at an instant. Their Keep is
// the ticket. It reports whether this package may have written them.
func formerHolds(records []Record, written int64) (holds *Holds, ok bool) {
	var list []hold
	before, sum := int64(0), 0.0
	for _, s := range records {
		whole := s.Tokens >= 1 && s.Tokens == float64(int64(s.Tokens))
		if sum += s.Tokens; !whole || sum > MaxHeld || s.At < before || s.Keep == 0 || s.Steps != 0 || s.Fill != (Fill{}) {
			return nil, false
		}
		before = s.At
		list = append(list, hold{s.At, s.Keep, int64(s.Tokens)})
	}
	if list == nil {
		return nil, true
	}
	return holdsOf(list, written), true
}
