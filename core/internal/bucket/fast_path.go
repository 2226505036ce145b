package bucket

// DecideFast decides r at the instant now and sets a, if r takes the fast path.
// Otherwise ok is false, records have not changed, and Decide must decide.
//
// A request takes it if it takes tokens, if r's limits wrote all records of the
// key and hold no tokens, and if the clock did not step back. If write is set,
// DecideFast has changed records in place: the caller must store them, and they
// matter until keep.
//
// Checking for everything else costs as much as the decision itself.
// fast_path.lua is the same.
func (r *Request) DecideFast(a *Answer, records []Record, now int64) (keep int64, write, ok bool) {
	rates := r.Set.Rates
	if r.Action != Take || r.Ends.Ticket != 0 || r.Dry || len(records) != len(rates) {
		return 0, false, false
	}
	a.Levels.Grow(len(rates))
	allowed, simple := true, r.Each == nil && r.Set.Simple
	for i := range rates {
		rate, s := &rates[i], &records[i]
		if s.Rate != rate && (s.Rate == nil || !rate.Same(s.Rate)) || s.At > now || s.Holds != nil || s.Cut != nil {
			return 0, false, false
		}
		l := Level{rate.Full, now}
		if s.Keep > now {
			l = rate.refill(rate.Level(s), 0, now)
		}
		*a.Levels.At(i) = l
		n := r.N
		if !simple {
			n = r.Of(i)
		}
		if n > rate.Capacity || l.Units < n*rate.Unit {
			allowed = false
		}
	}
	a.Now, a.Allowed = now, allowed
	if !allowed || simple && r.N == 0 || !simple && !r.Moves() {
		return 0, false, true
	}
	for i := range rates {
		rate, s, l := &rates[i], &records[i], a.Levels.At(i)
		n := r.N
		if !simple {
			n = r.Of(i)
		}
		l.Units -= n * rate.Unit
		s.Units, s.At = l.Units, now
		if l.Units < rate.Full {
			s.Keep = rate.storable(now+rate.wait(*l, rate.Full, 0, now), *l)
		} else { // still full: r takes nothing from this limit
			s.Keep = rate.storable(rate.steppedAt(*l), *l)
		}
		keep = max(keep, s.Keep)
	}
	return keep, true, true
}
