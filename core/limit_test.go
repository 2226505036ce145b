package core_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

func TestShorthandsSetOneFieldEach(t *testing.T) {
	for _, c := range []struct {
		rule string
		got  core.Limit
		want core.Limit
	}{
		{"n a second holds n", core.PerSecond(5), core.Limit{Capacity: 5, RefillRate: 5, RefillInterval: time.Second}},
		{"n a minute", core.PerMinute(60), core.Limit{Capacity: 60, RefillRate: 60, RefillInterval: time.Minute}},
		{"n an hour", core.PerHour(uint32(7)), core.Limit{Capacity: 7, RefillRate: 7, RefillInterval: time.Hour}},
		{"n every 24 hours", core.PerDay(uint16(9)), core.Limit{Capacity: 9, RefillRate: 9, RefillInterval: 24 * time.Hour}},
		{"n every interval", core.Per(5, 15*time.Minute), core.Limit{Capacity: 5, RefillRate: 5, RefillInterval: 15 * time.Minute}},
		{"a fraction every interval", core.Per(0.5, time.Hour), core.PerHour(0.5)},
		{"less than one token holds one", core.PerSecond(0.1), core.Limit{Capacity: 1, RefillRate: 0.1, RefillInterval: time.Second}},
		{"a fraction rounds the capacity up", core.PerSecond(2.5), core.Limit{Capacity: 3, RefillRate: 2.5, RefillInterval: time.Second}},
		{"the largest", core.PerSecond(int64(999_999_999_999_999)),
			core.Limit{Capacity: 999_999_999_999_999, RefillRate: 999_999_999_999_999, RefillInterval: time.Second}},
		{"WithBurst changes the capacity alone", core.PerSecond(5).WithBurst(20), core.Limit{Capacity: 20, RefillRate: 5, RefillInterval: time.Second}},
		{"WithName changes the name alone", core.PerSecond(5).WithName("x"), core.Limit{Name: "x", Capacity: 5, RefillRate: 5, RefillInterval: time.Second}},
		{"WithMode changes the mode alone", core.PerSecond(5).WithMode(core.Aligned),
			core.Limit{Capacity: 5, RefillRate: 5, RefillInterval: time.Second, Mode: core.Aligned}},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.rule, c.got, c.want)
		}
		if _, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{c.got}}); err != nil {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

// A mistake shows the number that was written, once.
func TestMistakesInShorthandsShowWhatWasWritten(t *testing.T) {
	for want, l := range map[string]core.Limit{
		"RefillRate: 0 ":                     core.PerSecond(0),
		"RefillRate: -1 ":                    core.PerMinute(-1),
		"RefillRate: NaN ":                   core.PerHour(math.NaN()),
		"RefillRate: +Inf ":                  core.PerDay(math.Inf(1)),
		"RefillRate: -Inf ":                  core.PerDay(math.Inf(-1)),
		"Capacity: 1e+15 ":                   core.PerSecond(1e15),
		"Capacity: 1.7976931348623157e+308 ": core.PerSecond(math.MaxFloat64),
		"Capacity: 9.223372036854776e+18 ":   core.PerSecond(int64(math.MaxInt64)),
		"Capacity: -3 ":                      core.PerSecond(5).WithBurst(-3),
		"Capacity: 0 ":                       core.PerSecond(5).WithBurst(0),
		"RefillInterval: -1s ":               core.Per(5, -time.Second),
		"Capacity: -5 ":                      core.InFlight(-5),
	} {
		err := core.Policy{Name: "api", Limits: []core.Limit{l}}.Validate()
		require.ErrorContains(t, err, "Policy.Limits[0]."+want)
		require.Len(t, mistakes(err), 1, "%v", err)
	}
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
		if got := c.limit.MaxIn(c.window); got != c.want {
			t.Errorf("%s: MaxIn(%v) = %d, want %d: %+v", c.rule, c.window, got, c.want, c.limit)
		}
	}
}

func TestEnumsHaveNames(t *testing.T) {
	for want, got := range map[string]string{
		"Continuous": core.Continuous.String(), "Stepped": core.Stepped.String(), "Aligned": core.Aligned.String(), "Mode(7)": core.Mode(7).String(),
		"FailLocal": core.FailLocal.String(), "FailOpen": core.FailOpen.String(), "FailClosed": core.FailClosed.String(), "FailureMode(9)": core.FailureMode(9).String(),
		"store": core.FromStore.String(), "fallback": core.FromFallback.String(), "fail-open": core.FromFailOpen.String(), "Source(8)": core.Source(8).String(),
	} {
		if got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}
