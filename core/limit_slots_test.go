package core_test

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// drawHolding draws a limit that may hold what requests take, of any unit, in
// any valid MaxHold.
var drawHolding = rapid.Custom(func(t *rapid.T) core.Limit {
	l := limitdraw.HoldingLimit.Filter(func(l core.Limit) bool { return l.Location == nil }).Draw(t, "limit")
	if l.Mode == core.Concurrent || l.Unit == "tokens" || l.Unit == "bytes" {
		if hold := rapid.Int64Range(0, int64(30*24*time.Hour)).Draw(t, "hold"); hold >= int64(time.Millisecond) {
			l = l.WithMaxHold(time.Duration(hold))
		}
	}
	if l.Mode == core.Concurrent {
		l = l.WithUnit(rapid.SampledFrom([]string{"", "gpus", "gpu hours", "a/b", "at-rest", "9s", `a "b" at`}).Filter(func(unit string) bool {
			return limitdraw.Valid(l.WithUnit(unit))
		}).Draw(t, "unit"))
	}
	if l.Unit == core.Requests { // as text has it
		l.Unit = ""
	}
	return l
})

func TestParseLimitOfSlots(t *testing.T) {
	for text, want := range map[string]core.Limit{
		"5 at once":                      core.InFlight(5),
		"5 requests at once":             core.InFlight(5),
		"1_000 at once":                  core.InFlight(1000),
		"5 at once hold 2m name exports": core.InFlight(5).WithMaxHold(2 * time.Minute).WithName("exports"),
		"5 at once hold 30 days":         core.InFlight(5).WithMaxHold(30 * 24 * time.Hour),
		"5 at once hold 1ms":             core.InFlight(5).WithMaxHold(time.Millisecond),
		`8 "gpu hours" at once`:          core.InFlight(8).WithUnit("gpu hours"),
		`8 "a/b" at once`:                core.InFlight(8).WithUnit("a/b"),
		`5 at once name "60/min"`:        core.InFlight(5).WithName("60/min"),
		`60/min name "5 at once"`:        core.PerMinute(60).WithName("5 at once"),
		"100_000 tokens/min hold 10m":    core.PerMinute(100_000).WithUnit("tokens").WithMaxHold(10 * time.Minute),
		"9 tokens/month hold 1d burst 8": core.PerMonth(9).WithUnit("tokens").WithMaxHold(24 * time.Hour).WithBurst(8),
	} {
		got, err := core.ParseLimit(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
	for want, l := range map[string]core.Limit{
		"5 at once":                          core.InFlight(5),
		"10 at once":                         core.InFlight(5).WithBurst(10),
		"5 at once hold 90s name exports":    core.InFlight(5).WithMaxHold(90 * time.Second).WithName("exports"),
		"8 gpus at once":                     core.InFlight(8).WithUnit("gpus"),
		"100000 tokens/min hold 10min":       core.PerMinute(100_000).WithUnit("tokens").WithMaxHold(10 * time.Minute),
		"9 tokens/month burst 8 hold 1500ms": core.PerMonth(9).WithBurst(8).WithUnit("tokens").WithMaxHold(1500 * time.Millisecond),
	} {
		require.Equal(t, want, l.String(), "String is canonical")
		text, err := l.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text), "MarshalText is String")
	}
}

func TestMistakesInSlots(t *testing.T) {
	minute := core.PerMinute(5)
	for want, l := range map[string]core.Limit{
		"Capacity: 0 must be from 1 to ":                                    core.InFlight(0),
		"Capacity: -5 must be from 1 to ":                                   core.InFlight(-5),
		"Capacity: 9223372036854775807 must be from 1 to ":                  core.InFlight(uint(math.MaxUint)),
		"Capacity: 100000 must be from 1 to ":                               core.InFlight(100_000),
		"MaxHold: 0s must be from 1ms to 720h (30 days) (RL118)":            core.InFlight(5).WithMaxHold(0),
		"MaxHold: -1ns must be from 1ms to 720h (30 days) (RL118)":          core.InFlight(5).WithMaxHold(-1),
		"counts nanoseconds, so write 30*time.Second if you mean that":      core.InFlight(5).WithMaxHold(30),
		"MaxHold: 999.999µs must be from 1ms to 720h (30 days)":             core.InFlight(5).WithMaxHold(time.Millisecond - 1),
		"MaxHold: 720h0m0.000000001s must be from 1ms to 720h":              core.InFlight(5).WithMaxHold(30*24*time.Hour + 1),
		"MaxHold: 1m0s must be left out here: it is for slots, and for":     minute.WithMaxHold(time.Minute),
		"MaxHold: 1m0s must be left out here":                               minute.WithUnit(core.Requests).WithMaxHold(time.Minute),
		"so write 60*time.Second":                                           minute.WithUnit("tokens").WithMaxHold(60),
		`Location: "UTC" must be left out in the Concurrent mode`:           core.InFlight(5).In(time.UTC).WithMode(core.Concurrent),
		`Anchor: "2026-05-01T00:00:00Z" must be left out in the Concurrent`: core.InFlight(5).Anchored(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)).WithMode(core.Concurrent),
	} {
		err := core.Policy{Name: "a", Limits: []core.Limit{l}}.Validate()
		require.ErrorContains(t, err, want)
		require.Len(t, mistakes(err), 1, "%v", err)
	}
	validate := func(l core.Limit) error { return core.Policy{Name: "a", Limits: []core.Limit{l}}.Validate() }
	reports(t, validate(minute.WithMode(core.Concurrent)), "Policy.Limits[0].RefillRate: 5", "Policy.Limits[0].RefillInterval: 1m0s")
	reports(t, validate(core.InFlight(5).WithMode(core.Stepped)), "Policy.Limits[0].RefillRate: 0", "Policy.Limits[0].RefillInterval: 0s")
	reports(t, validate(core.InFlight(5).In(time.UTC)), "Policy.Limits[0].RefillRate: 0", "Policy.Limits[0].RefillInterval: 0s")
	require.NoError(t, validate(core.InFlight(5).WithBurst(10)), "Capacity is the number of slots")
	require.NoError(t, validate(core.InFlight(uint8(5)).WithMaxHold(time.Millisecond)))
	require.Contains(t, core.InFlight(5).WithMaxHold(0).String(), "hold 0s")
}

// Limits that hold, in a policy with others, survive JSON.
func TestPoliciesWithSlotsAreTheSameAfterJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := core.Policy{Name: "a", Limits: []core.Limit{drawHolding.Draw(t, "first").WithName("x"), drawHolding.Draw(t, "second").WithName(`at "once"`)}}
		data, err := json.Marshal(p)
		require.NoError(t, err)
		var back core.Policy
		require.NoError(t, json.Unmarshal(data, &back), "of %s", data)
		assert.Equal(t, p, back, "written as %s", data)
		for _, l := range p.Limits {
			text, err := l.MarshalText()
			require.NoError(t, err)
			var again core.Limit
			require.NoError(t, again.UnmarshalText(text))
			assert.Equal(t, l, again, "MarshalText wrote %s", text)
		}
	})
}

func TestNamesOfSlots(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.InFlight(5), core.PerMinute(9), core.InFlight(4).WithUnit("gpus"), core.InFlight(3))
	res, err := l.AllowUnits(context.Background(), "k", core.Units{"gpus": 1})
	require.NoError(t, err)
	var names []string
	for _, limit := range res.Limits() {
		names = append(names, limit.Limit.Name)
	}
	assert.Equal(t, []string{"api-at-once", "api-1m", "api-at-once-gpus", "api-at-once-2"}, names)
}

func TestPolicyChangesOfSlotsInWords(t *testing.T) {
	var seen []string
	p := core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(5).WithName("at-once"), core.PerMinute(9).WithUnit("tokens").WithName("tpm"), core.PerDay(9).WithName("rate")}}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), p, core.WithPolicyObserver(func(_ core.Policy, changes []string) { seen = changes })))
	for _, limits := range [][]core.Limit{
		{core.InFlight(8).WithMaxHold(2 * time.Minute).WithName("at-once"), core.PerMinute(9).WithUnit("tokens").WithMaxHold(time.Minute).WithName("tpm"), core.InFlight(9).WithName("rate")},
		{core.InFlight(8).WithName("slots"), core.InFlight(9).WithName("rate"), core.PerMinute(9).WithUnit("tokens").WithMaxHold(time.Minute).WithName("tpm")},
	} {
		p.Limits = limits
		require.NoError(t, l.SetPolicy(p))
		switch limits[0].Name {
		case "at-once":
			assert.Equal(t, []string{
				`limit "at-once": 8 at once hold 2min, was 5 at once`,
				`limit "tpm": 9 tokens/min hold min, was 9 tokens/min`,
				`limit "rate": 9 at once, was 9/day`,
			}, seen)
		case "slots":
			assert.Equal(t, []string{`limit "slots": 8 at once, is new`, `limit "at-once": removed, was 8 at once hold 2min`}, seen)
		}
	}
}
