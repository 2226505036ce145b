package bucket

// calendars are periods of the calendars of a set's limits, for the script:
// Lua knows no time zones.
type calendars struct {
	// packed has for each limit with a calendar, in doubles: its deepest debt
	// in units, the most steps that a delay may have, how many periods follow,
	// and when each of them begins, in µs since 1970.
	packed string

	from, to int64 // for instants not before from and before to, which are in one period of each calendar
	reach    int64 // how many more periods it has, before and after these instants, than a bucket needs to fill
	all      bool  // it has all periods from 1970 on
}

// leastReach is the reach without wide. With wide it is four times that, and
// four times as much after each WidenCalendars.
const leastReach = 2

// Calendars returns as many periods around the instant at as buckets of these
// limits need to fill. With wide it returns more, for older state or a deeper
// debt: these make a call cost more, and most keys don't need them. It returns
// "" if no limit has a calendar.
func (p *LimitSet) Calendars(at int64, wide bool) string {
	if c := p.around(at, wide); c != nil {
		return c.packed
	}
	return ""
}

// around returns the calendars that Calendars packs, and keeps them until
// another period begins; nil if no limit has one.
func (p *LimitSet) around(at int64, wide bool) *calendars {
	if p.Simple {
		return nil
	}
	cached, reach := &p.calendar, int64(leastReach)
	if wide {
		cached, reach = &p.wide, 4*leastReach
	}
	c := cached.Load()
	if c == nil || at < c.from || at >= c.to {
		c = p.packCalendars(at, reach)
		if c != nil {
			cached.Store(c)
		}
	}
	return c
}

// WidenCalendars is called when sent, which Calendars has returned for wide,
// had too few periods: it returns more from now on, until another period
// begins. It returns false if sent has all periods there are.
func (p *LimitSet) WidenCalendars(at int64, sent string) bool {
	c := p.around(at, true)
	switch {
	case c == nil:
		return false
	case c.packed != sent: // another call has widened them meanwhile
		return true
	case c.all:
		return false
	}
	p.wide.CompareAndSwap(c, p.packCalendars(at, 4*c.reach))
	return true
}

// packCalendars returns the calendars around the instant at with a reach; nil
// if no limit has a calendar.
func (p *LimitSet) packCalendars(at, reach int64) *calendars {
	var packed []byte
	result := &calendars{from: 0, to: Forever, reach: reach, all: true}
	for i := range p.Rates {
		rate := &p.Rates[i]
		if rate.Calendar == nil {
			continue
		}
		now := rate.Calendar.At(at)
		result.from, result.to = max(result.from, now.Start), min(result.to, now.End)
		periods := (rate.Full+rate.Gain-1)/rate.Gain + reach
		oldest, latest := rate.Calendar.Number(0), rate.Calendar.Number(Forever-1)+1
		first, last := max(oldest, now.Number-periods), min(latest, now.Number+periods)
		result.all = result.all && first == oldest && last == latest
		packed = appendDouble(packed, rate.maxDebt)
		packed = appendDouble(packed, rate.maxSteps)
		packed = appendDouble(packed, last-first+1)
		for n := first; n <= last; n++ {
			packed = appendDouble(packed, rate.Calendar.Start(n))
		}
	}
	if packed == nil {
		return nil
	}
	result.packed = string(packed)
	return result
}
