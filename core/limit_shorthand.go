package core

import (
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
)

// number is any kind of number, so that neither a literal nor a configured int needs a conversion. A time.Duration is none: with
// the arguments of Per in the wrong order a program does not compile.
type number interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | float32 | float64
}

// PerSecond returns a limit of n tokens a second whose Capacity is n (at least 1): bursts of n, then n a second.
func PerSecond[N number](n N) Limit { return per(float64(n), time.Second) }

// PerMinute returns a limit of n tokens a minute whose Capacity is n (at least 1). A new bucket is full, so PerMinute(60)
// admits up to 119 in the first minute: see [Limit.MaxIn].
func PerMinute[N number](n N) Limit { return per(float64(n), time.Minute) }

// PerHour returns a limit of n tokens an hour whose Capacity is n (at least 1).
func PerHour[N number](n N) Limit { return per(float64(n), time.Hour) }

// PerDay returns a limit of n tokens every 24 hours whose Capacity is n (at least 1). They come one by one, unlike those of
// [PerWeek] and [PerMonth]. With In(time.UTC) all come at once, at midnight.
func PerDay[N number](n N) Limit { return per(float64(n), 24*time.Hour) }

// Per returns a limit of n tokens every interval whose Capacity is n (at least 1): Per(5, 15*time.Minute).
func Per[N number](n N, interval time.Duration) Limit { return per(float64(n), interval) }

// per keeps invalid numbers, so that the constructor reports them. A fraction of a token rounds the Capacity up.
func per(n float64, interval time.Duration) Limit {
	capacity := int64(0)
	if n > 0 {
		capacity = int64(min(math.Ceil(n), limit.MaxCapacity+1))
	}
	return Limit{Capacity: capacity, RefillRate: n, RefillInterval: interval}
}

// InFlight returns a limit of n slots: at most n requests are at work at once, in all processes that share the store. A request
// takes a slot, or as many as its cost, and middleware releases it when the response is over. Without middleware, call
// [Result.Release]. n is from 1 to 1,000.
func InFlight[N integer](n N) Limit {
	l := Limit{Capacity: int64(n), Mode: Concurrent}
	if n > 0 && uint64(n) > limit.MaxCapacity {
		l.Capacity = limit.MaxCapacity
	}
	return l
}

// Times returns a limit for an override that multiplies what the key has without the override, whatever its plan: Times(10) its
// Capacity and RefillRate by ten, and slots too. With a name it multiplies the limit of that name. Without one it multiplies all that the
// override does not name. n is from 0.001 to 1,000,000; a limit keeps at least one token, and at most what [Limit.Capacity] allows.
func Times[N number](n N) Limit { return Limit{Times: float64(n)} }

// integer is any kind of whole number.
type integer interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32
}

// WithBurst returns the limit with another Capacity, which is the largest burst.
func (l Limit) WithBurst(capacity int64) Limit {
	l.Capacity = capacity
	return l
}

// WithName returns the limit with another Name.
func (l Limit) WithName(name string) Limit {
	l.Name = name
	return l
}

// WithUnit returns the limit with another Unit.
func (l Limit) WithUnit(unit string) Limit {
	l.Unit = unit
	return l
}

// WithMaxHold returns the limit with another MaxHold: for how long a request holds what it takes, unless it is released or
// settled before. Then that comes back, so that a process that dies takes nothing along. From 1 ms to 30 days.
//
// Of slots the default is a minute. A request that takes longer calls [Result.Hold] in time; middleware does so by itself. The
// shorter MaxHold is, the sooner the slots of a process that died come back.
//
// Of a limit of another unit than requests, what a request takes is then an estimate: [Result.Settle] charges what it really took,
// and without that the estimate comes back. The default is that it stays charged.
func (l Limit) WithMaxHold(d time.Duration) Limit {
	if l.MaxHold = d; d == 0 {
		l.MaxHold = limit.NoHold // a mistake, and not the default
	}
	return l
}

// WithMode returns the limit with another Mode.
func (l Limit) WithMode(mode Mode) Limit {
	l.Mode = mode
	return l
}

// PerWeek returns a limit of n tokens every calendar week whose Capacity is n (at least 1). All come at once, on Monday at
// 00:00 UTC. [Limit.In] chooses another place, and [Limit.Anchored] another day.
func PerWeek[N number](n N) Limit { return per(float64(n), calendar.Week).In(time.UTC) }

// PerMonth returns a limit of n tokens every calendar month whose Capacity is n (at least 1). All come at once, on the first
// of the month at 00:00 UTC. [Limit.In] chooses another place, and [Limit.Anchored] another day.
func PerMonth[N number](n N) Limit { return per(float64(n), Month).WithMode(Aligned) }

// In returns the limit Aligned to the calendar of a location. Its RefillInterval must be whole days, weeks or months. Days
// begin at midnight there, weeks on Monday, and several months with a January. A day on which clocks are set forward has 23
// hours, and is one day. If the clocks skip the time at which a period begins, it begins when they are set forward; if they
// show it twice, the first time.
//
// [time.Local] is another place on each machine, so it is not for processes that share a store, and text can't name it. The
// store's clock decides which day it is. Each process computes the days from its own time zone data. If the system has
// none, [time.LoadLocation] returns an error at start: then import time/tzdata.
func (l Limit) In(location *time.Location) Limit {
	if l.Location = location; location == nil {
		l.Location = limit.NoLocation
	}
	return l.WithMode(Aligned)
}

// Anchored returns the limit Aligned to a calendar one of whose periods begins at t: for months that begin on a customer's
// billing day, weeks that begin on another day, or days that begin at noon. In a month that is shorter, the period begins
// on the last day. The time of day is that of t in the limit's Location, by default UTC. The zero time is a mistake.
func (l Limit) Anchored(t time.Time) Limit {
	if l.Anchor = t.Round(0).UTC(); t.IsZero() {
		l.Anchor = limit.NoAnchor
	}
	return l.WithMode(Aligned)
}
