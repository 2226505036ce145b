package core_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

func TestShorthandsSetOneFieldEach(t *testing.T) {
	limit := func(capacity int64, rate float64, interval time.Duration) core.Limit {
		return core.Limit{Capacity: capacity, RefillRate: rate, RefillInterval: interval}
	}
	five := limit(5, 5, time.Second)
	named, aligned := five, five
	named.Name, aligned.Mode = "x", core.Aligned
	for _, c := range []struct {
		rule string
		got  core.Limit
		want core.Limit
	}{
		{"n a second holds n", core.PerSecond(5), five},
		{"n a minute", core.PerMinute(60), limit(60, 60, time.Minute)},
		{"n an hour", core.PerHour(uint32(7)), limit(7, 7, time.Hour)},
		{"n every 24 hours", core.PerDay(uint16(9)), limit(9, 9, 24*time.Hour)},
		{"n every interval", core.Per(5, 15*time.Minute), limit(5, 5, 15*time.Minute)},
		{"a fraction every interval", core.Per(0.5, time.Hour), core.PerHour(0.5)},
		{"less than one token holds one", core.PerSecond(0.1), limit(1, 0.1, time.Second)},
		{"a fraction rounds the capacity up", core.PerSecond(2.5), limit(3, 2.5, time.Second)},
		{"the largest", core.PerSecond(int64(999_999_999_999_999)), limit(999_999_999_999_999, 999_999_999_999_999, time.Second)},
		{"WithBurst changes the capacity alone", core.PerSecond(5).WithBurst(20), limit(20, 5, time.Second)},
		{"WithName changes the name alone", core.PerSecond(5).WithName("x"), named},
		{"WithMode changes the mode alone", core.PerSecond(5).WithMode(core.Aligned), aligned},
		{"Capacity is the number of slots", core.InFlight(5).WithBurst(10), core.InFlight(10)},
	} {
		assert.Equal(t, c.want, c.got, c.rule)
		require.NoError(t, core.Policy{Name: "api", Limits: []core.Limit{c.got}}.Validate(), c.rule)
	}
}

// A mistake is reported once, and shows the number that was written.
func TestMistakesInOneLimit(t *testing.T) {
	minute, slots := core.PerMinute(5), core.InFlight(5)
	for want, l := range map[string]core.Limit{
		"RefillRate: 0 ":                     core.PerSecond(0),
		"RefillRate: -1 ":                    core.PerMinute(-1),
		"RefillRate: NaN ":                   core.PerHour(math.NaN()),
		"RefillRate: +Inf ":                  core.PerDay(math.Inf(1)),
		"RefillRate: -Inf ":                  core.PerDay(math.Inf(-1)),
		"RefillRate: 1 ":                     {Capacity: 999_999_999_999_999, RefillRate: 1, RefillInterval: time.Second}, // longer than 100 years
		"RefillRate: 5e-324 ":                core.Per(math.SmallestNonzeroFloat64, time.Second),
		"Capacity: 1e+15 ":                   core.PerSecond(1e15),
		"Capacity: 1.7976931348623157e+308 ": core.PerSecond(math.MaxFloat64),
		"Capacity: 9.223372036854776e+18 ":   core.PerSecond(int64(math.MaxInt64)),
		"Capacity: -3 ":                      core.PerSecond(5).WithBurst(-3),
		"Capacity: 0 ":                       core.PerSecond(5).WithBurst(0),
		"Capacity: 9223372036854775807 ":     {Capacity: math.MaxInt64, RefillRate: 1e6, RefillInterval: time.Second},
		"RefillInterval: -1s ":               core.Per(5, -time.Second),
		"RefillInterval: 0s ":                {Capacity: 1, RefillRate: 1},
		"RefillInterval: 884760h0m0s ":       {Capacity: 1, RefillRate: 1e6, RefillInterval: 101 * 365 * 24 * time.Hour},
		"Mode: Mode(4) ":                     core.PerMinute(1).WithMode(4),

		"Capacity: 0 must be from 1 to ":                                    core.InFlight(0),
		"Capacity: -5 must be from 1 to ":                                   core.InFlight(-5),
		"Capacity: 9223372036854775807 must be from 1 to ":                  core.InFlight(uint(math.MaxUint)),
		"Capacity: 100000 must be from 1 to ":                               core.InFlight(100_000),
		"MaxHold: 0s must be from 1ms to 720h (30 days) (RL118)":            slots.WithMaxHold(0),
		"MaxHold: -1ns must be from 1ms to 720h (30 days) (RL118)":          slots.WithMaxHold(-1),
		"MaxHold: 999.999µs must be from 1ms to 720h (30 days)":             slots.WithMaxHold(time.Millisecond - 1),
		"MaxHold: 720h0m0.000000001s must be from 1ms to 720h":              slots.WithMaxHold(30*24*time.Hour + 1),
		"MaxHold: 1m0s must be left out here: it is for slots, and for":     minute.WithMaxHold(time.Minute),
		"MaxHold: 2m0s must be left out here":                               minute.WithUnit(core.Requests).WithMaxHold(2 * time.Minute),
		`Location: "UTC" must be left out in the Concurrent mode`:           slots.In(time.UTC).WithMode(core.Concurrent),
		`Anchor: "2026-05-01T00:00:00Z" must be left out in the Concurrent`: slots.Anchored(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)).WithMode(core.Concurrent),

		"Penalty: 0s must be from 1ms to 720h (30 days) (RL121)":         minute.WithPenalty(0),
		"Penalty: -1ns must be from 1ms to 720h (30 days)":               minute.WithPenalty(-1),
		"Penalty: 720h0m0.000000001s must be from 1ms to 720h (30 days)": minute.WithPenalty(30*24*time.Hour + 1),
		"Penalty: 1m0s must be left out here: what slots and estimates":  slots.WithPenalty(time.Minute),
		"Penalty: 1h0m0s must be left out here":                          minute.WithUnit("tokens").WithMaxHold(time.Minute).WithPenalty(time.Hour),
		"Penalty: 720h0m0s must be at most ":                             core.PerSecond(1_000_000).WithPenalty(30 * 24 * time.Hour),
	} {
		err := core.Policy{Name: "api", Limits: []core.Limit{l}}.Validate()
		require.ErrorContains(t, err, "Policy.Limits[0]."+want)
		require.Len(t, mistakes(err), 1, "%v", err)
	}
	for _, l := range []core.Limit{core.Per(5, 30), slots.WithMaxHold(30), minute.WithUnit("tokens").WithMaxHold(30), minute.WithPenalty(30)} {
		err := core.Policy{Name: "api", Limits: []core.Limit{l}}.Validate()
		require.ErrorContains(t, err, ": a number without a unit counts nanoseconds, so write 30*time.Second if you mean that")
		require.Len(t, mistakes(err), 1, "%v", err)
	}
	for _, c := range []struct {
		limit          core.Limit
		rate, interval string
	}{
		{minute.WithMode(core.Concurrent), "5", "1m0s"}, {slots.WithMode(core.Stepped), "0", "0s"}, {slots.In(time.UTC), "0", "0s"},
	} {
		err := core.Policy{Name: "api", Limits: []core.Limit{c.limit}}.Validate()
		reports(t, err, "Policy.Limits[0].RefillRate: "+c.rate, "Policy.Limits[0].RefillInterval: "+c.interval)
	}
	require.NoError(t, core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(uint8(5)).WithMaxHold(time.Millisecond)}}.Validate())
}

func TestMaxInIsAFullBucketAndItsRefill(t *testing.T) {
	seventeen := core.Limit{Capacity: 17, RefillRate: 17, RefillInterval: 30 * time.Second}
	lossy := core.Limit{Capacity: 5, RefillRate: 100, RefillInterval: time.Second, Mode: core.Stepped}
	for _, c := range []struct {
		rule   string
		limit  core.Limit
		window time.Duration
		want   int64
	}{
		{"no time admits the capacity", seventeen, 0, 17},
		{"an interval admits the capacity and its refill", seventeen, 30 * time.Second, 34},
		{"two intervals", seventeen, time.Minute, 51},
		{"part of a token is none", seventeen, 30*time.Second - 1, 33},
		{"one token takes its time", seventeen, 1_764_705 * time.Microsecond, 17},
		{"and no longer", seventeen, 1_764_706 * time.Microsecond, 18},
		{"a negative window admits nothing", seventeen, -1, 0},
		{"10 a second hold 20 in a second", core.PerSecond(10), time.Second, 20},
		{"1 a second with bursts of 10", core.PerSecond(1).WithBurst(10), time.Second, 11},
		{"a decimal means what it says", core.PerSecond(0.1), 10 * time.Second, 2},
		{"1 a week", core.Limit{Capacity: 1, RefillRate: 1, RefillInterval: 7 * 24 * time.Hour}, 14*24*time.Hour - 1, 2},
		{"Stepped tokens may come just after the window opened", seventeen.WithMode(core.Stepped), 1, 34},
		{"Stepped counts each interval it touches", seventeen.WithMode(core.Stepped), 30*time.Second + 1, 51},
		{"Aligned likewise", seventeen.WithMode(core.Aligned), time.Minute, 51},
		{"no time touches no interval", seventeen.WithMode(core.Aligned), 0, 17},
		{"what overflows the bucket is not admitted", lossy, time.Second, 10},
		{"a limit that no constructor accepts admits nothing", core.Limit{Capacity: 5}, time.Hour, 0},
		{"the zero Limit admits nothing", core.Limit{}, time.Hour, 0},
		{"the longest window, Continuous", core.PerDay(1), math.MaxInt64, 1 + math.MaxInt64/int64(24*time.Hour)},
		{"the longest window, Stepped", core.PerDay(1).WithMode(core.Stepped), math.MaxInt64, 2 + math.MaxInt64/int64(24*time.Hour)},
		{"the longest window, Aligned", core.PerDay(1).WithMode(core.Aligned), math.MaxInt64, 2 + math.MaxInt64/int64(24*time.Hour)},
		{"a huge result is the largest int64", core.PerSecond(int64(999_999_999_999_999)), 10 * 365 * 24 * time.Hour, math.MaxInt64},
		{"a huge result is the largest int64, Stepped", core.PerSecond(int64(999_999_999_999_999)).WithMode(core.Stepped), 10 * 365 * 24 * time.Hour, math.MaxInt64},
	} {
		assert.Equal(t, c.want, c.limit.MaxIn(c.window), "%s: MaxIn(%v) of %+v", c.rule, c.window, c.limit)
	}
}
