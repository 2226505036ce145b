package core_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
)

// limitTexts returns the text of each limit of a key.
func limitTexts(t require.TestingT, l *core.Limiter, key string) map[string]string {
	res, err := l.Peek(context.Background(), key)
	require.NoError(t, err)
	texts := make(map[string]string)
	for _, r := range res.Limits() {
		texts[r.Limit.Name] = r.Limit.WithName("").String()
	}
	return texts
}

// An override multiplies what the customer's plan says, whatever that is; and
// exceptions what the policy's override says.
func TestTimesMultipliesWhatThePlanSays(t *testing.T) {
	policy := core.Policy{
		Name:   "api",
		Limits: []core.Limit{core.PerMinute(60).WithName("minute"), core.PerDay(1000).WithName("day"), core.InFlight(200).WithName("slots")},
		Plans:  map[string][]core.Limit{"pro": {core.PerMinute(0.1).WithBurst(5).WithName("minute"), core.PerWeek(50).WithName("week")}},
		Overrides: map[string][]core.Limit{
			"all": {core.Limit{Times: 10}}, "one": {core.Limit{Times: 3}.WithName("minute")}, "rest": {core.PerMinute(7).WithName("minute"), core.Limit{Times: 0.5}},
			"least": {core.Limit{Times: 0.001}}, "most": {core.Limit{Times: 1_000_000}},
		},
	}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	pro := core.Must(l.WithPlan("pro"))
	given := core.Must(l.WithLimits(core.PerMinute(4).WithName("minute")))
	for key, want := range map[string][3]map[string]string{
		"all":   {{"minute": "600/min", "day": "10000/day", "slots": "1000 at once"}, {"minute": "1/min burst 50", "week": "500/week in UTC"}, {"minute": "40/min"}},
		"one":   {{"minute": "180/min", "day": "1000/day", "slots": "200 at once"}, {"minute": "0.3/min burst 15", "week": "50/week in UTC"}, {"minute": "12/min"}},
		"rest":  {{"minute": "7/min", "day": "500/day", "slots": "100 at once"}, {"minute": "7/min", "week": "25/week in UTC"}, {"minute": "7/min"}},
		"least": {{"minute": "0.06/min burst 1", "day": "1/day", "slots": "1 at once"}, {"minute": "0.0001/min burst 1", "week": "0.05/week burst 1 in UTC"}, {"minute": "0.004/min burst 1"}},
	} {
		for i, of := range []*core.Limiter{l, pro, given} {
			assert.Equal(t, want[i], limitTexts(t, of, key), "%s, limiter %d", key, i)
		}
	}
	for _, of := range []*core.Limiter{l, pro, given} {
		res, err := of.Allow(t.Context(), "most")
		require.NoError(t, err)
		assert.True(t, res.Allowed)
	}
	require.NoError(t, l.SetExceptions(core.Exceptions{Overrides: map[string][]core.Limit{"all": {core.Limit{Times: 2}.WithName("minute")}, "rest": {core.Limit{Times: 2}}}}))
	assert.Equal(t, map[string]string{"minute": "1200/min", "day": "10000/day", "slots": "1000 at once"}, limitTexts(t, l, "all"))
	assert.Equal(t, map[string]string{"minute": "2/min burst 100", "week": "500/week in UTC"}, limitTexts(t, pro, "all"))
	assert.Equal(t, map[string]string{"minute": "14/min", "day": "1000/day", "slots": "200 at once"}, limitTexts(t, l, "rest"))
}

// An override of a key whose request has as many limits as can be adds none.
func TestAnOverrideAddsNoLimitBeyondTheMost(t *testing.T) {
	var given []core.Limit
	for i := range 64 {
		given = append(given, core.PerHour(5).WithName(strconv.Itoa(i)))
	}
	policy := core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(5).WithName("own")}, Plans: map[string][]core.Limit{"pro": given},
		Overrides: map[string][]core.Limit{"bob": {core.PerHour(9).WithName("own"), core.PerHour(7).WithName("63")}},
	}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
	for _, of := range []*core.Limiter{core.Must(l.WithLimits(given...)), core.Must(l.WithPlan("pro"))} {
		texts := limitTexts(t, of, "bob")
		assert.Len(t, texts, 64)
		assert.Equal(t, "7/h", texts["63"])
		res, err := of.Allow(t.Context(), "bob")
		require.NoError(t, err)
		assert.True(t, res.Allowed)
	}
}

// What was used stays used when a factor comes and goes.
func TestTimesAddsWhatItAdds(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return time.Unix(1e9, 0) })), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(100)}}))
	left := func(n int64) int64 {
		res, err := l.AllowN(t.Context(), "bob", n)
		require.NoError(t, err)
		return res.Remaining
	}
	assert.EqualValues(t, 20, left(80))
	require.NoError(t, l.SetExceptions(core.Exceptions{Overrides: map[string][]core.Limit{"bob": {core.Limit{Times: 10}}}}))
	assert.EqualValues(t, 620, left(300))
	require.NoError(t, l.SetExceptions(core.Exceptions{}))
	assert.EqualValues(t, 0, left(0))
}

func TestMistakesInTimes(t *testing.T) {
	with := func(override ...core.Limit) core.Policy {
		return core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1).WithName("hour")}, Overrides: map[string][]core.Limit{"bob": override}}
	}
	for want, p := range map[string]core.Policy{
		"must be from 0.001 to 1,000,000":              with(core.Limit{Times: 1_000_001}),
		"Overrides.…[0].Times: -2":                     with(core.Limit{Times: -2}),
		"stands with a Name alone":                     with(core.Limit{Times: 2, Capacity: 5}),
		"multiplies all limits, as":                    with(core.Limit{Times: 2}, core.Limit{Times: 3}),
		"is the name of":                               with(core.Limit{Times: 2}.WithName("hour"), core.PerHour(3).WithName("hour")),
		`"hours" is no limit of the policy`:            with(core.Limit{Times: 2}.WithName("hours")),
		"Policy.Limits[0].Times: 2 multiplies a limit": {Name: "api", Limits: []core.Limit{core.Limit{Times: 2}}},
		"Policy.Plans.pro[0].Times":                    {Name: "api", Limits: []core.Limit{core.PerHour(1)}, Plans: map[string][]core.Limit{"pro": {core.Limit{Times: 2}.WithName("api")}}},
	} {
		assert.ErrorContains(t, p.Validate(), want)
	}
	_, err := core.Must(core.NewLimiter(core.NewMemoryStore(), with(core.Limit{Times: 2}))).WithLimits(core.Limit{Times: 2})
	assert.ErrorContains(t, err, "WithLimits[0].Times")
	for text, want := range map[string]string{
		"x": "no slash", "x0": "Times: \"x0\" must be from 0.001", "x-1": "no slash", "x1e9": "must be from 0.001 to 1,000,000", "x10 burst 5": "only name can follow",
		"x10 hold 2min": "only name can follow", "x10 stepped": "only name can follow", "x10 minute": "is not understood", "x1,5": "without commas", "x10 nam minute": "did you mean name",
	} {
		_, err := core.ParseLimit(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// A factor is the same in Go, in text, in JSON and in a file.
func TestTimesIsTheSameEverywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := core.Limit{Times: rapid.Float64Range(0.001, 1_000_000).Draw(t, "times"), Name: rapid.SampledFrom([]string{"", "a", "per day"}).Draw(t, "name")}
		read, err := core.ParseLimit(want.String())
		require.NoError(t, err, want)
		assert.Equal(t, want, read)
		p := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5).WithName("a"), core.PerDay(9).WithName("per day")}, Overrides: map[string][]core.Limit{"bob": {want}}}
		text, err := json.Marshal(p)
		require.NoError(t, err)
		var same core.Policy
		require.NoError(t, json.Unmarshal(text, &same))
		assert.Equal(t, p.Overrides, same.Overrides)
		parsed, err := policyfile.Parse(text)
		require.NoError(t, err)
		assert.Equal(t, p.Overrides, parsed.Overrides)
	})
	for text, want := range map[string]core.Limit{"X10": core.Limit{Times: 10}, " ×2.5  name minute": core.Limit{Times: 2.5}.WithName("minute"), "x1_000": core.Limit{Times: 1000}} {
		got, err := core.ParseLimit(text)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// What a factor makes of a limit is a limit that NewLimiter accepts, and a new
// key has all of it.
func TestWhatTimesMakesIsALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limitdraw.AnyLimit.Draw(t, "limit").WithName("a").WithUnit("")
		l.MaxHold = 0
		times := rapid.OneOf(rapid.Float64Range(0.001, 1_000_000), rapid.SampledFrom([]float64{0.5, 2, 10, 1.0 / 3, 1_000_000, 0.001})).Draw(t, "times")
		policy := core.Policy{Name: "api", Limits: []core.Limit{l}, Overrides: map[string][]core.Limit{"bob": {core.Limit{Times: times}}}}
		limiter, err := core.NewLimiter(core.NewMemoryStore(), policy)
		if err != nil {
			t.Skip("no limit of requests")
		}
		res, err := limiter.Peek(context.Background(), "bob")
		require.NoError(t, err)
		got := res.Limits()[0].Limit
		require.NoError(t, core.Policy{Name: "api", Limits: []core.Limit{got}}.Validate(), "%v times %v is %v", l, times, got)
		res, err = limiter.AllowN(context.Background(), "bob", got.Capacity)
		require.NoError(t, err)
		require.True(t, res.Allowed, "%v times %v is %v", l, times, got)
	})
}
