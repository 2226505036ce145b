package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
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
	total := l.spec().MaxIn(d)
	if !total.IsInt64() {
		return math.MaxInt64
	}
	return total.Int64()
}

// spec is l for the arithmetic.
func (l Limit) spec() bucket.Spec {
	return bucket.Spec{Capacity: l.Capacity, RefillRate: l.RefillRate, RefillInterval: l.RefillInterval, Mode: bucket.Mode(l.Mode)}
}

const (
	// maxCapacity is the largest integer a structured header field can hold (RFC 9651, 3.3.1).
	maxCapacity = quantity.MaxTokens
	// maxFill bounds the time in which an empty bucket fills.
	maxFill = bucket.MaxFill
	// maxName keeps header fields and Redis keys short.
	maxName = 128
)

// mistakes lists what is wrong with l; field is how the caller writes l.
func (l Limit) mistakes(field string) []error {
	var errs []error
	wrong := func(name string, value any, reason string) {
		errs = append(errs, &ConfigError{field + name, value, reason})
	}
	if l.Name != "" {
		if reason := badName(l.Name); reason != "" {
			wrong("Name", l.Name, reason)
		}
	}
	capacityOK := l.Capacity >= 1 && l.Capacity <= maxCapacity
	if !capacityOK {
		wrong("Capacity", l.Capacity, "must be from 1 to "+strconv.Itoa(maxCapacity)+" tokens")
	}
	rateOK := l.RefillRate > 0 && !math.IsInf(l.RefillRate, 0) // false for NaN
	if !rateOK {
		wrong("RefillRate", l.RefillRate, "must be a number above 0 (tokens every RefillInterval)")
	}
	intervalOK := l.RefillInterval >= time.Microsecond
	switch {
	case l.RefillInterval > 0 && !intervalOK: // a number without its unit is nanoseconds
		wrong("RefillInterval", l.RefillInterval, fmt.Sprintf("must be at least 1µs: did you mean %d * time.Second?", int64(l.RefillInterval)))
	case !intervalOK:
		wrong("RefillInterval", l.RefillInterval, "must be above 0")
	}
	if rateOK && intervalOK {
		switch {
		case l.RefillInterval > maxFill:
			wrong("RefillInterval", l.RefillInterval, "must be at most 100 years")
		case !capacityOK:
		case l.Mode != Continuous && !l.spec().Exact():
			wrong("RefillRate", l.RefillRate, "has too many decimals for this Capacity")
		case float64(l.Capacity)/l.RefillRate > float64(maxFill)/float64(l.RefillInterval):
			wrong("RefillRate", l.RefillRate, "is too slow: an empty bucket would take more than 100 years to fill")
		}
	}
	if l.Mode > Aligned {
		wrong("Mode", l.Mode, "must be Continuous, Stepped or Aligned")
	}
	return errs
}

// badName says why name can't stand in a header field as an RFC 9651 String, or "".
func badName(name string) string {
	if name == "" {
		return "is required"
	}
	if len(name) > maxName {
		return "must be at most " + strconv.Itoa(maxName) + " bytes long"
	}
	if strings.IndexFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		return "must be printable ASCII"
	}
	return ""
}

func itoa(n int64) string   { return strconv.FormatInt(n, 10) }
func ftoa(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
