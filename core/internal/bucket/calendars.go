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
	all      bool  // they are all periods from 1970 on
}

// leastReach is the reach of the periods that are sent at first.
const leastReach = 2

// Calendars returns the periods around an instant: those in which buckets of these limits fill, before it and after it. If wide
// it returns more, for decisions on older state or a deeper debt. These are kept apart, because they make a call cost more,
// and other keys don't need them. It returns "" if no limit has a calendar.
func (p *Plan) Calendars(at int64, wide bool) string {
	if c := p.around(at, wide); c != nil {
		return c.packed
	}
	return ""
}

// around returns what Calendars returns.
func (p *Plan) around(at int64, wide bool) *calendars {
	if p.Plain {
		return nil
	}
	kept, reach := &p.calendar, int64(leastReach)
	if wide {
		kept, reach = &p.wide, 4*leastReach
	}
	c := kept.Load()
	if c == nil || at < c.from || at >= c.to {
		c = p.packCalendars(at, reach)
		if c != nil {
			kept.Store(c)
		}
	}
	return c
}

// WidenCalendars has Calendars return more periods than were sent, if wide, until another period begins. It returns false if
// there are no more.
func (p *Plan) WidenCalendars(at int64, sent string) bool {
	c := p.around(at, true)
	switch {
	case c == nil:
		return false
	case c.packed != sent: // another call has asked for more meanwhile
		return true
	case c.all:
		return false
	}
	p.wide.CompareAndSwap(c, p.packCalendars(at, 4*c.reach))
	return true
}

// packCalendars returns the periods around an instant, with so many more before and after it; nil if there are no calendars.
func (p *Plan) packCalendars(at, reach int64) *calendars {
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
