package core

import (
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/enum"
)

// Mode is how a bucket refills.
type Mode uint8

const (
	// Continuous adds tokens one by one, evenly over the interval: a limit of
	// 60 a minute adds one every second. It is the default, and the smoothest
	// for clients.
	Continuous Mode = iota
	// Stepped adds RefillRate tokens at once every RefillInterval, counted from
	// the bucket's first use after it was full.
	Stepped
	// Aligned adds RefillRate tokens at once at every multiple of
	// RefillInterval on the Unix clock: every minute at :00, every day at 00:00
	// UTC, every week on Thursday. Or it does so by the calendar: see
	// [PerMonth], [PerWeek] and [Limit.In]. Use it for quotas.
	Aligned
	// Concurrent is for how many requests may be at work at once. Tokens are
	// slots: a request takes its cost, and the slots come back when it is
	// released. The limit has no rate: see [InFlight].
	Concurrent
)

// modes are the names of modes.
var modes = enum.Names{Type: "Mode", Of: []string{"Continuous", "Stepped", "Aligned", "Concurrent"}}

// String returns the mode's name in Go, without the package: Continuous,
// Stepped, Aligned or Concurrent.
func (m Mode) String() string { return modes.Go(int(m)) }

// Limit is one token bucket. A request takes its cost from the bucket, and is
// denied if the bucket holds less. The bucket refills by RefillRate tokens
// every RefillInterval, up to Capacity.
//
// The rate bounds the long run, and the capacity bounds the burst. That is not
// a fixed window: see [Limit.MaxIn].
type Limit struct {
	// Name identifies the limit among those of its policy, in headers and in
	// the store, where its tokens stay its own when the policy changes. It must
	// be printable ASCII, at most 128 bytes. By default a sole limit has its
	// policy's name; each of several has the policy's name and its interval,
	// such as "api-1m", and its Unit, if that is not requests: "api-1m-tokens".
	Name string

	// Capacity is the most tokens that the bucket holds, and so the largest
	// burst: 1 to 999,999,999,999,999.
	Capacity int64

	// RefillRate is how many tokens the bucket gains every RefillInterval. It
	// must be above 0 and fill the bucket within 100 years. A decimal fraction
	// such as 0.1 means exactly that fraction.
	RefillRate float64

	// RefillInterval is the time in which the bucket gains RefillRate tokens:
	// from 1 µs to 100 years. In the Stepped and Aligned modes it is rounded up
	// to whole microseconds.
	RefillInterval time.Duration

	// Mode is how the bucket refills within the interval. The zero value is
	// Continuous.
	Mode Mode

	// Unit is what the tokens stand for, such as "tokens" of a language model.
	// By default the limit counts requests: [Limiter.AllowN] takes its cost
	// from such limits only, [Limiter.AllowUnits] from all. It must be
	// printable ASCII without capitals, at most 128 bytes.
	Unit string

	// Location is where the days of an Aligned limit begin: see [Limit.In]. If
	// it is nil, they are multiples on the Unix clock.
	Location *time.Location

	// Anchor is when one of the periods of an Aligned limit begins: see
	// [Limit.Anchored]. It is zero if no day was chosen.
	Anchor time.Time

	// MaxHold is for how long a request holds what it takes, at most: see
	// [Limit.WithMaxHold]. It must be 0, or from 1 ms to 30 days. 0 means a
	// minute for slots; in other modes it means that what a request takes is
	// used at once.
	MaxHold time.Duration

	// Penalty is for how long a client that this limit denies gets nothing more:
	// see [Limit.WithPenalty]. It must be 0, or from 1 ms to 30 days. 0 means
	// that there is no penalty.
	Penalty time.Duration
}

// MaxIn returns the most tokens that this limit admits in any window of length
// d: a full bucket and its refill. For example, 17 tokens every 30 seconds
// admit up to 34 in 30 seconds.
//
// For a Continuous bucket that is Capacity + RefillRate × d/RefillInterval.
// Stepped and Aligned buckets may refill just after the window opens, so they
// count a refill for every interval that d touches. The result is at most the
// largest int64, as in the Concurrent mode, and 0 if d is negative or the Limit
// is not valid. What [Limiter.Debit] and [Result.Settle] charge comes on top.
func (l Limit) MaxIn(d time.Duration) int64 {
	if d < 0 || len(l.mistakes("")) > 0 {
		return 0
	}
	if l.Mode == Concurrent {
		return math.MaxInt64
	}
	total := l.spec().MaxIn(d)
	if !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

const (
	// Requests is the unit of limits that name none.
	Requests = "requests"

	// Month is the RefillInterval of limits by the calendar month: the months
	// themselves, of 28 to 31 days. A multiple of it is as many months: 3 *
	// Month is a quarter, and 12 * Month a year. Its length is that of the mean
	// month.
	Month = 2_629_746 * time.Second

	// Never is the RetryAfter of a request that can never be allowed, because
	// its cost exceeds a limit's Capacity or its key is blocked: 100 years. Waits
	// of more than 71 years are Never too. It can be compared with ==, and also
	// be printed, waited for, or added to a time as any other delay.
	Never time.Duration = 100 * 365 * 24 * time.Hour
)

// numeric is any kind of number, so that neither a literal nor a configured int
// needs a conversion. A time.Duration is none: with the arguments of Per in the
// wrong order a program does not compile.
type numeric interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | float32 | float64
}

// PerSecond returns a limit of n tokens a second whose Capacity is n (at least
// 1): bursts of n, then n a second.
func PerSecond[N numeric](n N) Limit { return per(float64(n), time.Second) }

// PerMinute returns a limit of n tokens a minute whose Capacity is n (at least
// 1). A new bucket is full, so PerMinute(60) admits up to 119 in the first
// minute: see [Limit.MaxIn].
func PerMinute[N numeric](n N) Limit { return per(float64(n), time.Minute) }

// PerHour returns a limit of n tokens an hour whose Capacity is n (at least 1).
func PerHour[N numeric](n N) Limit { return per(float64(n), time.Hour) }

// PerDay returns a limit of n tokens every 24 hours whose Capacity is n (at
// least 1). They come one by one, unlike those of [PerWeek] and [PerMonth].
// With In(time.UTC) all come at once, at midnight.
func PerDay[N numeric](n N) Limit { return per(float64(n), 24*time.Hour) }

// Per returns a limit of n tokens every interval whose Capacity is n (at least
// 1): Per(5, 15*time.Minute).
func Per[N numeric](n N, interval time.Duration) Limit { return per(float64(n), interval) }

// per keeps invalid numbers for the constructor, which complains of the rate.
func per(n float64, interval time.Duration) Limit {
	return Limit{Capacity: impliedCapacity(n), RefillRate: n, RefillInterval: interval}
}

// impliedCapacity is the capacity of a limit of which only the rate is given:
// the rate, rounded up. One out of range stays out of range.
func impliedCapacity(rate float64) int64 {
	if !(rate > 0) || math.IsInf(rate, 1) {
		return 1 // the rate is the mistake
	}
	return int64(math.Ceil(min(rate, maxCapacity+1)))
}

// InFlight returns a limit of n slots: at most n requests are at work at once,
// in all processes that share the store. A request takes a slot, or as many as
// its cost, and middleware releases it when the response is over. Without
// middleware, call [Result.Release], and [Result.Keep] for work that may take
// longer than MaxHold, a minute. RetryAfter of a denial is when a slot is free at
// the latest, by MaxHold: requests mostly end earlier. n is from 1 to 1,000.
func InFlight[N integer](n N) Limit {
	l := Limit{Capacity: int64(n), Mode: Concurrent}
	if n > 0 && l.Capacity < 0 { // an int64 can't hold it
		l.Capacity = math.MaxInt64
	}
	return l
}

// integer is any kind of whole number.
type integer interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32
}

// WithBurst returns the limit with another Capacity, which is the largest
// burst, 1 to 999,999,999,999,999: PerMinute(60).WithBurst(10) allows 10 at
// once, and then one a second.
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

// WithMaxHold returns the limit with another MaxHold, from 1 ms to 30 days: for
// how long a request holds what it takes, unless it is released or settled
// before. Then that comes back, so that a process that dies takes nothing
// along.
//
// Of slots the default is a minute, which suits work of any length: middleware
// and [Result.Keep] prolong it, and a process that dies frees its slots after a
// minute. Of a limit of another
// unit than requests, what a request takes is then an estimate: [Result.Settle]
// charges what it really took, and without that the estimate comes back. By
// default it stays charged.
func (l Limit) WithMaxHold(d time.Duration) Limit {
	if l.MaxHold = d; d == 0 {
		l.MaxHold = noHold // a mistake, and not the default
	}
	return l
}

// WithPenalty returns the limit with a Penalty, from 1 ms to 30 days: who is
// denied by it waits. The first request that the limit denies makes a debt that
// the refill pays in so long. Until then all requests are denied, and none of
// them prolongs the debt. Then the bucket is empty: the wait is the Penalty and
// the time in which the tokens come. [Limiter.Reset] ends it.
//
// For example Per(5, 15*time.Minute).WithPenalty(57*time.Minute) allows 5
// attempts at once. The sixth is denied with a RetryAfter of an hour: 57 minutes,
// and 3 for a token. Ten minutes later it is 50 minutes. An attempt after the 57
// minutes, but before there is a token, is a denial like the first.
//
// A Peek makes no debt, nor does a policy in shadow mode, a request whose cost
// is above the Capacity, a blocked key, or a request that only its floor denies:
// see [Limiter.AllowAbove]. Slots and limits with a MaxHold have no penalty. Of
// limits that refill at once, the debt is what comes in within the Penalty.
func (l Limit) WithPenalty(d time.Duration) Limit {
	if l.Penalty = d; d == 0 {
		l.Penalty = noHold // a mistake, and not the default
	}
	return l
}

// WithMode returns the limit with another Mode.
func (l Limit) WithMode(mode Mode) Limit {
	l.Mode = mode
	return l
}

// PerWeek returns a limit of n tokens every calendar week whose Capacity is n
// (at least 1). All come at once, on Monday at 00:00 UTC. [Limit.In] chooses
// another place, and [Limit.Anchored] another day.
func PerWeek[N numeric](n N) Limit { return per(float64(n), bucket.Week).In(time.UTC) }

// PerMonth returns a limit of n tokens every calendar month whose Capacity is n
// (at least 1). All come at once, on the first of the month at 00:00 UTC.
// [Limit.In] chooses another place, and [Limit.Anchored] another day.
func PerMonth[N numeric](n N) Limit { return per(float64(n), Month).WithMode(Aligned) }

// In returns the limit Aligned to the calendar of a location. Its
// RefillInterval must be whole days, weeks or months. Days begin at midnight
// there, weeks on Monday, and several months with a January. A day may have 23
// hours. A period whose beginning the clocks skip begins when they are set
// forward; of a time that they show twice the first counts.
//
// [time.Local] is another place on each machine, so text can't name it, and
// processes that share a store must not use it. Each process computes days from
// its own time zone data: without it [time.LoadLocation] fails, so import
// time/tzdata.
func (l Limit) In(location *time.Location) Limit {
	if l.Location = location; location == nil {
		l.Location = noLocation
	}
	return l.WithMode(Aligned)
}

// Anchored returns the limit Aligned to a calendar one of whose periods begins
// at t: for months from a customer's billing day, weeks from another day, or
// days from noon. In a shorter month the period begins on the last day. The
// time of day is that of t in the limit's Location, by default UTC. The zero
// time is a mistake.
func (l Limit) Anchored(t time.Time) Limit {
	if l.Anchor = t.Round(0).UTC(); t.IsZero() {
		l.Anchor = noAnchor
	}
	return l.WithMode(Aligned)
}
