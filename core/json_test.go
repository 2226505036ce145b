package core_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// drawPolicy is any policy that a constructor accepts.
var drawPolicy = rapid.Custom(func(t *rapid.T) core.Policy {
	p := core.Policy{
		Name:       rapid.StringMatching(`[ -~]{1,20}`).Draw(t, "name"),
		OnFailure:  rapid.SampledFrom([]core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed}).Draw(t, "on failure"),
		LocalShare: rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 0.25, 1.0 / 3, 1e-9}), rapid.Float64Range(1e-300, 1)).Draw(t, "local share"),
		Shadow:     rapid.Bool().Draw(t, "shadow"),
		Headers: rapid.SampledFrom([]core.HeaderStyle{
			core.HeadersDefault, core.HeadersNone, core.HeadersLegacy, core.HeadersIETF, core.HeadersDraft6,
			core.HeadersLegacy | core.HeadersIETF, core.HeadersLegacy | core.HeadersDraft6,
		}).Draw(t, "headers"),
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "limits") {
		l := limittest.DrawLimit.Draw(t, "limit")
		l.Name = rapid.StringMatching(`[ -~]{1,20}`).Draw(t, "name of a limit") + string(rune('a'+i)) // no two alike
		p.Limits = append(p.Limits, l)
	}
	return p
})

func TestPolicyIsTheSameAfterJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy.Draw(t, "policy")
		data, err := json.Marshal(p)
		require.NoError(t, err)
		var back core.Policy
		require.NoError(t, json.Unmarshal(data, &back), "of %s", data)
		assert.Equal(t, p, back, "written as %s", data)
	})
}

func TestPolicyJSON(t *testing.T) {
	data, err := json.Marshal(map[string]core.Policy{
		"plain": {Name: "api", Limits: []core.Limit{core.PerMinute(100).WithBurst(20)}},
		"rich": {
			Name: "search", Limits: []core.Limit{core.PerSecond(10), core.PerDay(1000).WithName("daily").WithMode(core.Aligned)},
			OnFailure: core.FailClosed, LocalShare: 0.5, Shadow: true, Headers: core.HeadersLegacy | core.HeadersDraft6,
		},
		"quiet": {Name: "jobs", Limits: []core.Limit{core.PerHour(1)}, Headers: core.HeadersNone},
		"zero":  {},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"plain": {"name": "api", "limits": ["100/min burst 20"]},
		"rich": {"name": "search", "limits": ["10/s", "1000/day aligned name daily"],
			"on_failure": "closed", "local_share": 0.5, "shadow": true, "headers": ["legacy", "draft6"]},
		"quiet": {"name": "jobs", "limits": ["1/h"], "headers": "none"},
		"zero": null
	}`, string(data))
}

func TestMistakesInPolicyJSON(t *testing.T) {
	var config struct{ Policies []core.Policy }
	err := json.Unmarshal([]byte(`{"policies": [{"name": "api", "limits": ["100/min"], "on_failur": "open"}, null]}`), &config)
	require.ErrorContains(t, err, "on_failur")

	for name, p := range map[string]core.Policy{
		"no limits":    {Name: "api"},
		"no name":      {Limits: []core.Limit{core.PerSecond(1)}},
		"a share":      {Name: "api", Limits: []core.Limit{core.PerSecond(1)}, LocalShare: math.NaN()},
		"a mode":       {Name: "api", Limits: []core.Limit{core.PerSecond(1)}, OnFailure: 3},
		"a style":      {Name: "api", Limits: []core.Limit{core.PerSecond(1)}, Headers: 15},
		"a bad limit":  {Name: "api", Limits: []core.Limit{{Capacity: 1}}},
		"a zero limit": {Name: "api", Limits: []core.Limit{{}}},
	} {
		_, err := json.Marshal(p)
		var mistake *core.ConfigError
		assert.ErrorAs(t, err, &mistake, name)
	}
}
