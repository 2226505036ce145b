package core

import (
	"math"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/calendar"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
)

// Mode is how a bucket refills.
type Mode = bucket.Mode

const (
	// Continuous adds tokens one by one, evenly over the interval: a limit of 60 a minute adds one every second. It
	// is the default, and the smoothest for clients.
	Continuous = bucket.Continuous
	// Stepped adds RefillRate tokens at once every RefillInterval, counted from the bucket's first
	// use after it was full.
	Stepped = bucket.Stepped
	// Aligned adds RefillRate tokens at once at every multiple of RefillInterval on the Unix clock: every minute at
	// :00, every day at 00:00 UTC, every week on Thursday at 00:00 UTC. Or it does so by the calendar: see [PerMonth],
	// [PerWeek] and [Limit.In]. Use it for quotas.
	Aligned = bucket.Aligned
	// Concurrent is for how many requests may be at work at once. Tokens are slots: a request takes its cost, and the slots come
	// back when it is released. The limit has no rate: see [InFlight].
	Concurrent = bucket.Concurrent
)

// Limit is one token bucket. A request takes its cost from the bucket, and is denied if the bucket holds less. The
// bucket refills by RefillRate tokens every RefillInterval, up to Capacity.
//
// The rate bounds the long run, and the capacity bounds the burst. That is not a fixed window: see [Limit.MaxIn].
type Limit struct {
	// Name identifies the limit among those of its policy: in headers, and in the store, so that its tokens stay its
	// own when the policy changes. It must be printable ASCII, at most 128 bytes. If it is empty, a sole limit has
	// its policy's name; each of several has the policy's name and its interval, such as "api-1m", and its Unit if that
	// is not requests, such as "api-1m-tokens".
	Name string

	// Capacity is the most tokens that the bucket holds, and so the largest burst: 1 to 999,999,999,999,999.
	Capacity int64

	// RefillRate is how many tokens the bucket gains every RefillInterval. It must be above 0 and fill the bucket
	// within 100 years. A decimal fraction such as 0.1 means exactly that fraction.
	RefillRate float64

	// RefillInterval is the time in which the bucket gains RefillRate tokens: from 1 µs to 100 years. In the Stepped
	// and Aligned modes it is rounded up to whole microseconds.
	RefillInterval time.Duration

	// Mode is how the bucket refills within the interval. The zero value is Continuous.
	Mode Mode

	// Unit is what the tokens stand for, such as "tokens" of a language model or "bytes". It must be printable ASCII
	// without capitals, 2 to 128 bytes, and neither a word of [ParseLimit]'s form nor a misspelling of [Requests]. If it is
	// empty, the limit counts requests: [Limiter.AllowN] takes its cost from such limits only, and [Limiter.AllowUnits] from all.
	Unit string

	// Location is where the days of an Aligned limit begin: see [Limit.In]. If it is nil, they are multiples on the Unix
	// clock.
	Location *time.Location

	// Anchor is when one of the periods of an Aligned limit begins: see [Limit.Anchored]. It is zero if no day was
	// chosen.
	Anchor time.Time

	// MaxHold is for how long a request holds what it takes, at most: see [Limit.WithMaxHold]. It must be 0, or from 1 ms to 30
	// days. 0 means a minute for slots; in other modes it means that what a request takes is used at once.
	MaxHold time.Duration

	// Times is for overrides: see [Times].
	Times float64
}

// MaxIn returns the most tokens that this limit admits in any window of length d: a full bucket and its refill in the
// meantime. For example, 17 tokens every 30 seconds admit up to 34 in 30 seconds.
//
// A Continuous bucket refills evenly, so the result is Capacity + RefillRate × d/RefillInterval. Stepped and Aligned
// buckets refill at once, perhaps just after the window opens. They count a refill for every interval that d touches,
// up to Capacity each, because a bucket loses what overflows. A result above the largest int64 is the largest int64.
//
// MaxIn counts what the limit admits. [Limiter.Debit], and a [Result.Settle] that charges more, take tokens for what has
// happened already. What the bucket lacks then is a debt, and later requests wait until it is paid. So over a long time no
// more is used than the rate brings, a full bucket, and the debt.
//
// Slots are used again as soon as they are released, so in the Concurrent mode the result is the largest int64.
//
// MaxIn returns 0 if d is negative or no constructor would accept the Limit.
func (l Limit) MaxIn(d time.Duration) int64 {
	p := l.plain()
	if d < 0 || len(p.Mistakes("")) > 0 {
		return 0
	}
	if l.Mode == Concurrent {
		return math.MaxInt64
	}
	total := p.Spec().MaxIn(d)
	if !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

// Month is the RefillInterval of limits by the calendar month: the months themselves, of 28 to 31 days. A multiple of it is
// as many months: 3 * Month is a quarter, and 12 * Month a year. Its length is that of the mean month.
const Month = calendar.Month

// plain is l for package limit. The two types have the same fields, or this does not compile.
func (l Limit) plain() limit.Limit { return limit.Limit(l) }

// each returns what f makes of each of list.
func each[A, B any](list []A, f func(A) B) []B {
	if list == nil {
		return nil
	}
	made := make([]B, len(list))
	for i, v := range list {
		made[i] = f(v)
	}
	return made
}
