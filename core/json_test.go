package core_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
)

// drawPolicy is any policy that a constructor accepts.
var drawPolicy = rapid.Custom(func(t *rapid.T) core.Policy {
	names := rapid.StringMatching(`[ -~]{1,20}`)
	p := core.Policy{
		Name:       names.Draw(t, "name"),
		OnFailure:  rapid.SampledFrom([]core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed}).Draw(t, "on failure"),
		LocalShare: rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 0.25, 1.0 / 3, 1e-9}), rapid.Float64Range(1e-300, 1)).Draw(t, "local share"),
		Shadow:     rapid.Bool().Draw(t, "shadow"),
		Headers: rapid.SampledFrom([]core.HeaderStyle{
			core.HeadersDefault, core.HeadersNone, core.HeadersLegacy, core.HeadersDraft8, core.HeadersDraft6,
			core.HeadersLegacy | core.HeadersDraft8, core.HeadersLegacy | core.HeadersDraft6,
		}).Draw(t, "headers"),
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "limits") {
		l := rapid.OneOf(limitdraw.Limit, drawHolding).Draw(t, "limit")
		p.Limits = append(p.Limits, l.WithName(names.Draw(t, "name of a limit")+string(rune('a'+i)))) // no two alike
	}
	if rapid.Bool().Draw(t, "of keys") {
		keys := rapid.String().Filter(func(s string) bool { return s != "" })
		p.Plans = map[string][]core.Limit{names.Draw(t, "plan"): p.Limits}
		p.Overrides = map[string][]core.Limit{keys.Draw(t, "key"): p.Limits[:1]}
		p.Blocked = []string{keys.Draw(t, "blocked")}
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
		require.Equal(t, p, back, "written as %s", data)
		require.Equal(t, p, core.Must(core.NewLimiter(core.NewMemoryStore(), p)).Policy(), "a limiter's policy is what it was given")
	})
}

func TestPolicyJSONHasTheFieldsOfPolicyFiles(t *testing.T) {
	data, err := json.Marshal(map[string]core.Policy{
		"plain": {Name: "api", Limits: []core.Limit{core.PerMinute(100).WithBurst(20)}},
		"rich": {
			Name: "search", Limits: []core.Limit{core.PerSecond(10), core.PerDay(1000).WithName("daily").WithMode(core.Aligned)},
			Plans:     map[string][]core.Limit{"pro": {core.PerDay(2000).WithName("daily")}},
			Overrides: map[string][]core.Limit{"user:ann": {core.PerDay(9).WithName("daily")}}, Blocked: []string{"ip:192.0.2.1"},
			OnFailure: core.FailClosed, LocalShare: 0.5, Shadow: true, Headers: core.HeadersLegacy | core.HeadersDraft6,
		},
		"quiet": {Name: "jobs", Limits: []core.Limit{core.PerHour(1)}, Headers: core.HeadersNone},
		"zero":  {},
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"plain": {"name": "api", "limits": ["100/min burst 20"]},
		"rich": {"name": "search", "limits": ["10/s", "1000/day aligned name daily"], "plans": {"pro": ["2000/day name daily"]},
			"overrides": {"user:ann": ["9/day name daily"]}, "blocked": ["ip:192.0.2.1"],
			"on_failure": "closed", "local_share": 0.5, "shadow": true, "headers": "legacy, draft6"},
		"quiet": {"name": "jobs", "limits": ["1/h"], "headers": "none"},
		"zero": {"name": "", "limits": null}
	}`, string(data))
}

// encoding/json refuses what is no policy, and names the value. What it reads is
// checked by Validate, as is what Go makes.
func TestWrongPolicyJSONIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"name": "a", "limits": ["ten/min"]}`:                         `"ten/min" is not a limit: "ten" is not a number`,
		`{"name": "a", "limits": ["1/s"], "on_failure": "FailOpen"}`:   `Policy.OnFailure: "FailOpen" must be local, open or closed (RL112)`,
		`{"name": "a", "limits": ["1/s"], "headers": "legacy draft8"}`: `Policy.Headers: "legacy draft8" must be default, legacy, draft8, draft6 or none, or several with commas between them (RL114)`,
		`{"name": "a", "limits": [{"capacity": 5}]}`:                   "cannot unmarshal object",
		strings.Repeat("[", 100_000):                                   "max depth",
	} {
		var p core.Policy
		require.ErrorContains(t, json.Unmarshal([]byte(text), &p), want, text)
	}
	for name, p := range map[string]core.Policy{
		"a share": {Name: "api", Limits: []core.Limit{core.PerSecond(1)}, LocalShare: math.NaN()},
		"a mode":  {Name: "api", Limits: []core.Limit{core.PerSecond(1)}, OnFailure: 3},
		"a style": {Name: "api", Limits: []core.Limit{core.PerSecond(1)}, Headers: 15},
		"a limit": {Name: "api", Limits: []core.Limit{{Capacity: 1}}},
	} {
		_, err := json.Marshal(p)
		assert.Error(t, err, name)
	}
	var p core.Policy
	require.NoError(t, json.Unmarshal([]byte(`{"limits": ["0/min", ""], "local_share": 2, "headers": "draft6, draft8"}`), &p))
	reports(t, p.Validate(), "Policy.Name: ", "Policy.LocalShare: 2", "Policy.Headers: HeadersDraft8|HeadersDraft6", "Policy.Limits[0].RefillRate: 0",
		"Policy.Limits[1].Capacity: 0", "Policy.Limits[1].RefillRate: 0", "Policy.Limits[1].RefillInterval: 0s")
}
