package bucket

// A limit may have several definitions: a deployment changes it, two versions
// of a service run at once, a plan or an override has another Capacity. A
// record says by which one it was written. Until another definition writes, the
// level refills at the rate of that one: a rate counts from its change, and a
// change does not alter what is there.
//
// A bucket remembers what was used, whatever its Capacity is:
//
//	tokens left = Capacity - what was used
//
// A raised Capacity adds its tokens at once. A lowered one cuts what is left,
// but makes no debt, but for tokens that are held. What it can't cut from the
// level is stored beside it, as Cut. It is paid, before anything is added to
// the level, by a Capacity that is raised again, by what comes back of what was
// used before, and by what refills while the bucket is full.
//
// Example: 70 of 100 a day are used, and the limit becomes 20 a day. Half a day
// later one token is taken. Then it is 100 again.
//
//	                 the level    Cut    what was used
//	100 a day        30           -      70
//	20 a day         0            50     70: 20 of 20, and 50 more
//	half a day on    10           50     60
//	one is taken     9            50     61
//	100 a day        39           -      61

// takeOver returns a level and what is cut, both at now, as they are under r.
// Under w, which wrote the record, they are l and c. ended is until when w has
// counted the time, and so many tokens are held.
//
// The steps of r begin where those of w ended, so that no time counts twice,
// and little is lost where definitions alternate. But the first step of r is
// after now: a change alters nothing.
func (r *Rate) takeOver(w *Rate, l Level, c Cut, held, ended, now int64) (Level, Cut) {
	tokens, rest := r.tokensOf(w, l.Units)
	by, base := r.Capacity-w.Capacity, r.unitsOf(r.tokensOf(w, c.Base))
	var units int64
	if by >= 0 { // what was cut comes first
		paid := int64(min(float64(by)*float64(r.Unit), r.cutUnits(c)))
		units = min(r.Full, r.unitsOf(tokens, rest)+by*r.Unit-paid)
		c.Tokens -= float64(by)
	} else { // as much as is cut already is no part of the level: it came since
		whole := min(-by, int64(c.Tokens))
		part := int64(min(float64(-by-whole)*float64(r.Unit), r.cutUnits(Cut{Tokens: c.Tokens - float64(whole)})))
		before := r.unitsOf(tokens, rest)
		units = max(min(r.unitsOf(tokens+by+whole, rest+part), r.room(held)), min(before, r.room(r.Capacity+held))) // no debt but what is held
		if base = max(0, base-max(0, before-units)); c.Tokens <= 0 {
			base = 0
		}
		c.Tokens += float64(-by-tokens) + float64(units-rest)/float64(r.Unit)
	}
	if c.Tokens, c.Base = min(c.Tokens, Forever), base; !(c.Tokens > 0) {
		c = Cut{}
	}
	at := now
	if (units < r.Full || c.Tokens > 0) && !r.Aligned {
		at = max(ended, now-r.Step+1)
	}
	return Level{units, at}, c
}

// tokensOf is so many units of w as whole tokens, and the rest in units of r,
// rounded down.
func (r *Rate) tokensOf(w *Rate, units int64) (tokens, rest int64) {
	tokens = floorTo(units, w.Unit) / w.Unit
	rest = units - tokens*w.Unit
	return tokens, int64(floorUnits(float64(float64(rest)/float64(w.Unit)) * float64(r.Unit)))
}

// unitsOf is tokens and a rest in units, at least the deepest debt and at most
// Full.
func (r *Rate) unitsOf(tokens, rest int64) int64 {
	switch {
	case tokens >= r.Capacity:
		return r.Full
	case tokens < -r.maxDebt/r.Unit-1: // one less, as the rest may be almost a token
		return -r.maxDebt
	}
	return max(-r.maxDebt, tokens*r.Unit+rest)
}

// since is the level at now that follows from s, which r wrote, and what is cut
// from it. ended is until when the time has counted. At s.Keep the bucket is
// full, and its steps begin with its next use.
func (r *Rate) since(s *Record, now int64) (l Level, c Cut, ended int64) {
	if s.Keep <= now {
		return Level{r.room(s.Holds.Held(now)), now}, Cut{}, now
	}
	if s.Cut != nil {
		c = *s.Cut
	}
	if s.Holds == nil {
		l = r.refillCut(r.Level(s), 0, now, &c)
	} else {
		l = r.refillAround(s.Holds, r.Level(s), s.At, now, &c)
	}
	if c.Tokens <= 0 {
		c = Cut{}
	}
	switch {
	case !r.Aligned:
		return l, c, l.At
	case r.foreign:
		return l, c, min(s.At, now)
	}
	return l, c, max(min(s.At, now), r.steppedAt(l))
}

// levelAt is the level of s at now under r, and what is cut from it, if nothing
// is taken until then. same is whether r wrote s.
func (r *Rate) levelAt(s *Record, now int64) (l Level, c Cut, same bool) {
	w := r.writer(s)
	l, c, ended := w.since(s, now)
	if w == r {
		return l, c, true
	}
	l, c = r.takeOver(w, l, c, s.Holds.Held(now), ended, now)
	return l, c, false
}

// waitFor is how many µs after now s has need units under r, if nothing is
// taken until then. It asks levelAt for the first instant at which it has them,
// so that what is promised is what happens.
func (r *Rate) waitFor(s *Record, need, now int64) int64 {
	from, to := now, max(now+1, s.Keep) // not before from; at s.Keep the bucket is full
	if l, _, _ := r.levelAt(s, now); l.Units >= need {
		return 0
	}
	for to-from > 1 {
		middle := from + (to-from)/2
		if l, _, _ := r.levelAt(s, middle); l.Units >= need {
			to = middle
		} else {
			from = middle
		}
	}
	return to - now
}
