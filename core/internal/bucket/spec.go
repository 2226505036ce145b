// Package bucket is the arithmetic of token buckets: what a request does to the
// stored state of a key. It is a package because it knows no policy, no context
// and no store: stores and core compute by it, and the Lua script of package
// redisstore computes the same, to the last bit.
//
// A [Request] asks for tokens of the limits in a [LimitSet]. What is stored of a
// key is a [Bucket], with a [Record] of each limit; [Decide] decides a request
// on it, and fills in an [Answer].
package bucket

import (
	"math/big"
	"strconv"
	"time"
)

// Mode is how tokens come back to a bucket: package core documents the values.
type Mode uint8

// The modes, in the order of package core.
const (
	Continuous Mode = iota
	Stepped
	Aligned
	Concurrent
)

// Spec is a limit as users write it.
type Spec struct {
	Capacity       int64
	RefillRate     float64 // tokens every RefillInterval; a decimal fraction such as 0.1 means exactly that
	RefillInterval time.Duration
	Mode           Mode
	Location       *time.Location // Aligned to the calendar there; nil: to the Unix clock
	Anchor         time.Time      // when one of its periods begins; zero: see NewCalendar
	Other          bool           // it counts another unit than requests
	MaxHold        time.Duration  // for how long what [Acquire] takes is held, before it comes back; 0: it is used at once
	Penalty        time.Duration  // until the debt is paid that a denial makes; 0: it makes none
}

func (s Spec) calendar() *Calendar {
	if s.Mode != Aligned || s.Location == nil {
		return nil
	}
	if s.Location == time.UTC && s.Anchor.IsZero() && s.RefillInterval%Week != 0 && s.RefillInterval%Month != 0 {
		return nil // these days are multiples on the Unix clock
	}
	return NewCalendar(s.RefillInterval, s.Location, s.Anchor)
}

// MaxPeriods is the most periods of a calendar in which an empty bucket fills:
// their starts are sent with each request.
const MaxPeriods = 100

// MaxFill bounds the time in which an empty bucket fills, so that every delay
// is a time.Duration and every instant a whole number of microseconds in a
// float64.
const MaxFill = 100 * 365 * 24 * time.Hour

// Window is the seconds, rounded up, in which an empty bucket fills.
func (s Spec) Window() int64 {
	fill := new(big.Rat).SetInt64(s.Capacity)
	fill.Quo(fill, s.perMicro()).Quo(fill, big.NewRat(1_000_000, 1))
	return ceil(fill).Int64()
}

// step is the RefillInterval in µs, rounded up.
func (s Spec) step() int64 { return (int64(s.RefillInterval) + 999) / 1000 }

// perMicro is the exact refill rate in tokens a µs.
func (s Spec) perMicro() *big.Rat {
	return new(big.Rat).Quo(decimal(s.RefillRate), inMicros(s.RefillInterval))
}

func inMicros(d time.Duration) *big.Rat { return big.NewRat(int64(d), 1000) }

// decimal is the fraction that a person means by f: 1/10 for 0.1, not the
// nearest double.
func decimal(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return r
}

// ceil rounds r, which is not negative, up to a whole number.
func ceil(r *big.Rat) *big.Int {
	up, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		up.Add(up, big.NewInt(1))
	}
	return up
}
