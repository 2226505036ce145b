package core

import (
	"math"
	"math/big"
	"time"
)

// Mode is how tokens come back to a bucket.
type Mode uint8

const (
	// Continuous drips tokens in one by one, evenly over the interval: a limit of 60 a minute
	// gives one back every second. The default, and the smoothest for clients.
	Continuous Mode = iota
	// Stepped gives RefillRate tokens back at once every RefillInterval, counted from the
	// bucket's first use.
	Stepped
	// Aligned gives RefillRate tokens back at once at every multiple of RefillInterval on the
	// Unix clock: every minute at :00, every day at 00:00 UTC, every week on Thursday at 00:00
	// UTC. The mode of quotas.
	Aligned
)

// String names the mode as it is written in Go, without the package.
func (m Mode) String() string {
	switch m {
	case Continuous:
		return "Continuous"
	case Stepped:
		return "Stepped"
	case Aligned:
		return "Aligned"
	}
	return "Mode(" + itoa(int64(m)) + ")"
}

// Limit is one token bucket. A request takes its cost from the bucket and is denied when the
// bucket holds less; tokens come back at RefillRate every RefillInterval until Capacity is
// reached.
//
// A bucket bounds the long run by its rate and the burst by its capacity. That is not a window:
// see [Limit.MaxIn].
type Limit struct {
	// Name tells the limits of a policy apart in headers and keeps their tokens apart when the
	// policy changes: printable ASCII. Empty: a sole limit takes its policy's name, of several
	// each gets a name derived from the policy's and its interval, such as "api-1m".
	Name string

	// Capacity is the most tokens the bucket holds, so the largest burst: 1 to 999,999,999,999,999.
	Capacity int64

	// RefillRate is how many tokens come back every RefillInterval: above 0, and at least what
	// fills the bucket in 100 years. A decimal fraction such as 0.1 means exactly that.
	RefillRate float64

	// RefillInterval is the time in which RefillRate tokens come back: from 1 µs to 100 years. In the Stepped and
	// Aligned modes it is rounded up to whole microseconds.
	RefillInterval time.Duration

	// Mode is how tokens come back within the interval. The zero value is Continuous.
	Mode Mode
}

// Number is what the shorthands for limits accept, so that neither a literal nor a configured
// int needs a conversion.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~float32 | ~float64
}

// PerSecond is a limit of n tokens a second that holds n tokens (at least 1): bursts of n, then n
// a second.
func PerSecond[N Number](n N) Limit { return per(float64(n), time.Second) }

// PerMinute is a limit of n tokens a minute that holds n tokens (at least 1).
func PerMinute[N Number](n N) Limit { return per(float64(n), time.Minute) }

// PerHour is a limit of n tokens an hour that holds n tokens (at least 1).
func PerHour[N Number](n N) Limit { return per(float64(n), time.Hour) }

// PerDay is a limit of n tokens every 24 hours that holds n tokens (at least 1).
func PerDay[N Number](n N) Limit { return per(float64(n), 24*time.Hour) }

// Per is a limit of n tokens every interval that holds n tokens (at least 1): Per(5, 15*time.Minute).
func Per[N Number](n N, interval time.Duration) Limit { return per(float64(n), interval) }

// per leaves bad numbers as they are, for the constructor to report.
func per(n float64, interval time.Duration) Limit {
	capacity := int64(0)
	if n > 0 {
		capacity = int64(min(math.Ceil(n), maxCapacity+1))
	}
	return Limit{Capacity: capacity, RefillRate: n, RefillInterval: interval}
}

// WithBurst returns the limit with another Capacity: how much may be used at once.
func (l Limit) WithBurst(capacity int64) Limit {
	l.Capacity = capacity
	return l
}

// WithName returns the limit with another Name.
func (l Limit) WithName(name string) Limit {
	l.Name = name
	return l
}

// WithMode returns the limit with another Mode.
func (l Limit) WithMode(mode Mode) Limit {
	l.Mode = mode
	return l
}

// MaxIn returns the most tokens this limit admits in any window of length d: what a full bucket
// holds and what comes back meanwhile. 17 tokens every 30 seconds admit up to 34 in 30 seconds.
//
// Continuous tokens come back evenly, so that is Capacity + RefillRate × d/RefillInterval. Tokens that come at
// once may all come just after the window opened, so the Stepped and Aligned modes count every interval that d
// touches, up to Capacity each: what overflows is not admitted. A result above the largest int64 is the largest
// int64; a negative d and a Limit that no constructor would accept admit nothing.
func (l Limit) MaxIn(d time.Duration) int64 {
	if d < 0 || len(l.mistakes("")) > 0 {
		return 0
	}
	r := newRate(l, 0)
	steps := new(big.Rat).Quo(micros(d), new(big.Rat).SetInt64(r.step))
	if l.Mode != Continuous || r.step > 1 {
		steps = ceil(steps)
	}
	tokens := steps.Mul(steps, big.NewRat(min(r.gain, r.full), r.unit))
	total := new(big.Int).Quo(tokens.Num(), tokens.Denom())
	if total.Add(total, big.NewInt(l.Capacity)); !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

// ceil rounds r, which is not negative, up to a whole number.
func ceil(r *big.Rat) *big.Rat {
	up, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		up.Add(up, big.NewInt(1))
	}
	return new(big.Rat).SetInt(up)
}

// step is the RefillInterval in nanoseconds, rounded up to whole microseconds.
func (l Limit) step() int64 {
	return (int64(l.RefillInterval) + 999) / 1000 * 1000
}

// perMicro is the exact refill rate in tokens per microsecond.
func (l Limit) perMicro() *big.Rat {
	return new(big.Rat).Quo(decimal(l.RefillRate), micros(l.RefillInterval))
}

// micros is d in microseconds, to the nanosecond.
func micros(d time.Duration) *big.Rat { return big.NewRat(int64(d), 1000) }

// decimal is the fraction a person means by writing f: 1/10 for 0.1, not the nearest double.
func decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(ftoa(f))
	return r
}
