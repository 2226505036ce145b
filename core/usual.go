package core

// usual answers the usual request in a: take, of limits that wrote all of the key's records themselves, on a clock that
// did not step back. It changes records in place if they must be stored, and returns until when then. What it does not
// decide, it leaves to decide. It is the twin of the first branch of script.lua, and there for the same reason: what
// else a request may meet costs as much as the bucket itself.
func (r *Request) usual(a *Answer, records []record, now int64) (keep int64, write, ok bool) {
	rates := r.plan.rates
	if r.action != take || r.ends.ticket != 0 || len(records) != len(rates) {
		return 0, false, false
	}
	a.levels.grow(len(rates))
	allowed := true
	for i := range rates {
		rate, s := &rates[i], &records[i]
		if s.tag != rate.tag || s.steps != rate.steps || s.fill != rate.fill || s.at > now {
			return 0, false, false
		}
		l := rate.refill(rate.level(s), 0, now)
		if s.keep <= now {
			l.units = rate.full
		}
		*a.levels.at(i) = l
		if r.n > rate.capacity || l.units < r.n*rate.unit {
			allowed = false
		}
	}
	a.now, a.Allowed = now, allowed
	if !allowed || r.n == 0 {
		return 0, false, true
	}
	for i := range rates {
		rate, s, l := &rates[i], &records[i], a.levels.at(i)
		l.units -= r.n * rate.unit
		s.tokens, s.at = float64(l.units)/float64(rate.unit), now
		s.keep = min(now+rate.wait(*l, rate.full, 0, now), forever-1) // it takes at least one token to be here, so it isn't full
		keep = max(keep, s.keep)
	}
	return keep, true, true
}
