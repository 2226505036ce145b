package bucket

// Usual answers the usual request: to take, of limits that wrote all of the key's records themselves, on a clock that
// did not step back. If records must be stored it changes them in place and returns until when they matter. If ok is
// false it has decided nothing, and Decide must.
//
// The script has the same branch for the same reason: looking for anything unusual costs as much as the bucket itself.
func (r *Request) Usual(a *Answer, records []Record, now int64) (keep int64, write, ok bool) {
	rates := r.Plan.Rates
	if r.Action != Take || r.Ends.Ticket != 0 || r.Dry || len(records) != len(rates) {
		return 0, false, false
	}
	a.Levels.Grow(len(rates))
	allowed, plain := true, r.Each == nil && r.Plan.Plain
	for i := range rates {
		rate, s := &rates[i], &records[i]
		if s.Tag != rate.Tag || s.Steps != rate.Steps || s.Fill != rate.Fill || s.At > now || s.Holds != nil {
			return 0, false, false
		}
		l := Level{rate.Full, now}
		if s.Keep > now {
			l = rate.refill(rate.Level(s), 0, now)
		}
		*a.Levels.At(i) = l
		n := r.N
		if !plain {
			n = r.Of(i)
		}
		if n > rate.Capacity || l.Units < n*rate.Unit {
			allowed = false
		}
	}
	a.Now, a.Allowed = now, allowed
	if !allowed || plain && r.N == 0 || !plain && !r.Moves() {
		return 0, false, true
	}
	for i := range rates {
		rate, s, l := &rates[i], &records[i], a.Levels.At(i)
		n := r.N
		if !plain {
			n = r.Of(i)
		}
		l.Units -= n * rate.Unit
		s.Tokens, s.At = float64(l.Units)/float64(rate.Unit), now
		if l.Units < rate.Full {
			s.Keep = rate.storable(now+rate.wait(*l, rate.Full, 0, now), *l)
		} else { // r takes nothing from this limit
			s.Keep = rate.storable(rate.steppedAt(*l), *l)
		}
		keep = max(keep, s.Keep)
	}
	return keep, true, true
}
