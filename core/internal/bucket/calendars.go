package bucket

import (
	"encoding/binary"
	"math"
)

// calendars is a part of the calendars of a plan's limits, for stores that decide elsewhere.
type calendars struct {
	// packed is, for each limit that has a calendar, in doubles: the most units that it may owe, how many periods follow,
	// and when each of them begins, in µs since 1970.
	packed string

	from, to int64 // instants for which it was made
	reach    int64 // periods before and after that instant, beyond those in which a bucket fills
}

// Calendars returns the periods around an instant: those in which buckets of these limits fill, before it and after it.
// It returns "" if no limit has a calendar.
func (p *Plan) Calendars(at int64) string {
	if c := p.around(at); c != nil {
		return c.packed
	}
	return ""
}

// around returns what Calendars returns.
func (p *Plan) around(at int64) *calendars {
	if p.Plain {
		return nil
	}
	c := p.calendar.Load()
	if c == nil || at < c.from || at >= c.to {
		reach := int64(2)
		if c != nil {
			reach = c.reach
		}
		c = p.packCalendars(at, reach)
		if c != nil {
			p.calendar.Store(c)
		}
	}
	return c
}

// MoreCalendars has Calendars return more periods from now on, for decisions on older state or a deeper debt. It returns
// false if there are enough for any.
func (p *Plan) MoreCalendars(at int64) bool {
	c := p.around(at)
	if c == nil || c.reach > 4*MaxPeriods {
		return false
	}
	p.calendar.Store(p.packCalendars(at, 4*c.reach))
	return true
}

// packCalendars returns the periods around an instant, with so many more before and after it; nil if there are no calendars.
func (p *Plan) packCalendars(at, reach int64) *calendars {
	var packed []byte
	result := &calendars{from: 0, to: Forever, reach: reach}
	for i := range p.Rates {
		rate := &p.Rates[i]
		if rate.Calendar == nil {
			continue
		}
		now := rate.Calendar.At(at)
		result.from, result.to = max(result.from, now.Start), min(result.to, now.End)
		periods := (rate.Full+rate.Gain-1)/rate.Gain + reach
		first, last := now.Number-periods, now.Number+periods
		packed = appendDouble(packed, rate.deepest)
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

func appendDouble(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(float64(n)))
}
