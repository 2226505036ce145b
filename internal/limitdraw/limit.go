// Package limitdraw has generators of limits, costs and clocks for property
// tests. It is a package because it links rapid, which most modules lack.
package limitdraw

import (
	"flag"
	"math"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// Shrink failures for seconds only. Set -rapid.shrinktime for a smaller
// example.
func init() { _ = flag.Set("rapid.shrinktime", "3s") }

var drawMode = rapid.SampledFrom([]core.Mode{core.Continuous, core.Stepped, core.Aligned})

// Interval draws an interval: often a common one, at times with odd
// nanoseconds.
var Interval = rapid.OneOf(
	rapid.SampledFrom([]time.Duration{
		time.Microsecond, time.Millisecond, time.Second, 2 * time.Second, 30 * time.Second, time.Minute, time.Hour,
		24 * time.Hour, 7 * 24 * time.Hour, 1000, 1001, 1999, time.Second + 7, time.Second/3 + 1, 100 * 365 * 24 * time.Hour,
	}),
	rapid.Map(rapid.Int64Range(1000, int64(400*24*time.Hour)), func(n int64) time.Duration { return time.Duration(n) }),
)

// Capacity draws a capacity, uniform in the number of digits.
var Capacity = rapid.OneOf(
	rapid.Int64Range(1, 20),
	rapid.Custom(func(t *rapid.T) int64 {
		top := int64(math.Pow10(rapid.IntRange(1, 15).Draw(t, "digits")))
		return rapid.Int64Range(1, top-1).Draw(t, "capacity")
	}),
	rapid.Just(int64(999_999_999_999_999)),
)

// drawRate draws a rate with few or many decimals.
func drawRate(capacity int64) *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(1, 100), func(n int64) float64 { return float64(n) }),
		rapid.Just(float64(capacity)),
		rapid.SampledFrom([]float64{1, 0.1, 0.25, 0.01, 1e6, 1.0 / 3, 33.333, 999_983, 1e-3, 2.5}),
		rapid.Custom(func(t *rapid.T) float64 {
			decimals := rapid.IntRange(0, 6).Draw(t, "decimals")
			return float64(rapid.Int64Range(1, 1e7).Draw(t, "numerator")) / math.Pow10(decimals)
		}),
	)
}

// Limit draws any limit that a constructor accepts.
var Limit = rapid.Custom(func(t *rapid.T) core.Limit {
	l := core.Limit{Capacity: Capacity.Draw(t, "capacity"), RefillInterval: Interval.Draw(t, "interval"), Mode: drawMode.Draw(t, "mode")}
	l.RefillRate = drawRate(l.Capacity).Draw(t, "rate")
	return l
}).Filter(Valid)

// Valid reports whether a constructor accepts l.
func Valid(l core.Limit) bool {
	return core.Policy{Name: "a", Limits: []core.Limit{l}}.Validate() == nil
}

// Limits draws 1 to 6 limits, some of them with names.
func Limits(limit *rapid.Generator[core.Limit]) *rapid.Generator[[]core.Limit] {
	return rapid.Custom(func(t *rapid.T) []core.Limit {
		limits := rapid.SliceOfN(limit, 1, 6).Draw(t, "limits")
		for i := range limits {
			if rapid.Bool().Draw(t, "named") {
				limits[i].Name = "limit-" + strconv.Itoa(i)
			}
		}
		return limits
	})
}

// Cost draws a cost, mostly at most the smallest capacity.
func Cost(limits []core.Limit) *rapid.Generator[int64] {
	least := limits[0].Capacity
	for _, l := range limits {
		least = min(least, l.Capacity)
	}
	return rapid.OneOf(
		rapid.Int64Range(0, min(least, 3)),
		rapid.Int64Range(0, least),
		rapid.SampledFrom([]int64{0, 1, least, (least + 1) / 2, least - 1, least + 1, math.MaxInt64}),
	)
}

// Move draws how far the clock moves: exactly by the last RetryAfter, close to
// it, or by parts and multiples of the intervals.
func Move(limits []core.Limit, retry time.Duration) *rapid.Generator[time.Duration] {
	if retry == core.Never {
		retry = time.Hour
	}
	interval := rapid.Map(rapid.SampledFrom(limits), func(l core.Limit) time.Duration { return l.RefillInterval })
	return rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, time.Nanosecond, time.Microsecond, retry, retry - time.Microsecond, retry / 2, time.Second}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			parts := float64(interval.Draw(t, "interval")) * rapid.Float64Range(0, 4).Draw(t, "intervals")
			return time.Duration(min(parts, float64(100*365*24*time.Hour)))
		}),
		interval,
	)
}

// Back draws how far a clock steps back.
var Back = rapid.OneOf(
	rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, time.Hour, 30 * 24 * time.Hour, 400 * 24 * time.Hour}),
	rapid.Map(rapid.Int64Range(1, int64(time.Minute)), func(n int64) time.Duration { return time.Duration(n) }),
)

// Clock draws a clock that shows an instant within the range, at times near one
// of its ends.
func Clock(t *rapid.T) *limittest.Clock {
	const month = 31 * 24 * time.Hour
	first, last := limittest.Earliest.UnixMicro(), limittest.Latest.UnixMicro()
	return limittest.ClockAt(time.UnixMicro(rapid.OneOf(
		rapid.Int64Range(first, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()),
		rapid.Int64Range(first, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()),
		rapid.Int64Range(first, first+month.Microseconds()),
		rapid.Int64Range(last-month.Microseconds(), last),
	).Draw(t, "start")))
}
