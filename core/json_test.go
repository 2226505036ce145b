package core_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
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
	p := core.Policy{
		Name:       rapid.StringMatching(`[ -~]{1,20}`).Draw(t, "name"),
		OnFailure:  rapid.SampledFrom([]core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed}).Draw(t, "on failure"),
		LocalShare: rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 0.25, 1.0 / 3, 1e-9}), rapid.Float64Range(1e-300, 1)).Draw(t, "local share"),
		Shadow:     rapid.Bool().Draw(t, "shadow"),
		Headers: rapid.SampledFrom([]core.HeaderStyle{
			core.HeadersDefault, core.HeadersNone, core.HeadersLegacy, core.HeadersDraft8, core.HeadersDraft6,
			core.HeadersLegacy | core.HeadersDraft8, core.HeadersLegacy | core.HeadersDraft6,
		}).Draw(t, "headers"),
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "limits") {
		l := limitdraw.Limit.Draw(t, "limit")
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

func TestPolicyJSONReadsLimitsThatAreObjects(t *testing.T) {
	var p core.Policy
	require.NoError(t, json.Unmarshal([]byte(`{"name": "api", "headers": "Draft8", "limits": ["10/s burst 30",
		{"name": "daily", "capacity": 5000, "refill_rate": 1e4, "refill_interval": "24h0m0s", "mode": "Aligned"},
		{"refill_rate": 60, "refill_interval": "min"}]}`), &p))
	require.Equal(t, core.Policy{Name: "api", Headers: core.HeadersDraft8, Limits: []core.Limit{core.PerSecond(10).WithBurst(30),
		core.PerDay(10_000).WithBurst(5000).WithName("daily").WithMode(core.Aligned), core.PerMinute(60)}}, p)
	require.NoError(t, json.Unmarshal([]byte(" null "), &p))
	require.Equal(t, "api", p.Name, "null leaves it as it is")
}

func TestMistakesInPolicyJSON(t *testing.T) {
	var config struct{ Policies []core.Policy }
	err := json.Unmarshal([]byte(`{"policies": [{"name": "api", "limits": ["100/min"], "on_failur": "open"}, null]}`), &config)
	require.ErrorContains(t, err, "on_failur")

	kept := core.Policy{Name: "kept"}
	err = json.Unmarshal([]byte(`{"name": 5, "limits": ["ten/min", {"capacity": "5", "refillRate": 1, "refill_interval": 30}, null],
		"local_share": 0, "on_failure": "FailOpen", "headers": ["draft8", "none"], "shadow": "yes"}`), &kept)
	require.Equal(t, core.Policy{Name: "kept"}, kept, "a policy with mistakes is left as it is")
	for _, want := range []string{
		"Policy.Name: 5 must be a string: put it in quotes",
		`Policy.Limits[0].RefillRate: "ten" must be a number`,
		`Policy.Limits[1]: "refillRate" is not a field of a limit: the fields are name, capacity, refill_rate, refill_interval, mode`,
		`Policy.Limits[1].RefillRate: "" is required`,
		`Policy.Limits[1].Capacity: "5" must be a number without quotes`,
		"Policy.Limits[1].RefillInterval: 30 needs a unit, such as 30s",
		"Policy.Limits[2]: null must be a string such as 100/min burst 20, or a mapping",
		"Policy.LocalShare: 0 must be above 0 and at most 1",
		`Policy.OnFailure: "FailOpen" must be local, open or closed`,
		`Policy.Headers[1]: "none" must be legacy, draft8 or draft6`,
		`Policy.Shadow: "yes" must be true or false`,
	} {
		assert.ErrorContains(t, err, want, "all mistakes at once")
	}
	for text, want := range map[string]string{
		`5`:                                "Policy: 5 must be a policy, a mapping with the fields name, limits",
		`{}`:                               `Policy.Limits: "" is required`,
		`{"name": "api", "limits": []}`:    "Policy.Limits: [] is an empty list",
		`{"name": "api", "limits": "1/s"}`: `Policy.Limits: "1/s" must be a list of limits`,
		`{"name": "api", "limits": ["1/s"], "headers": []}`:                                         "Policy.Headers: [] is an empty list",
		`{"name":"a","name":"b","limits":["1/s"]}`:                                                  "is given a second time",
		`{"name":"a","limits":["1/s"],"limits":["2/s"]}`:                                            "is given a second time",
		`{"name":"a","limits":[{"capacity":1,"capacity":9,"refill_rate":1,"refill_interval":"s"}]}`: "is given a second time",
	} {
		var mistake *core.ConfigError
		err := json.Unmarshal([]byte(text), &kept)
		assert.ErrorAs(t, err, &mistake, text)
		assert.ErrorContains(t, err, want, text)
	}

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

// JSON from outside costs no more than a policy file: its size, its depth and
// what is reported have bounds, and nothing follows it.
func TestPolicyJSONHasBounds(t *testing.T) {
	limits := func(n int, each string) string { return strings.TrimSuffix(strings.Repeat(each+",", n), ",") }
	key := strings.Repeat("k", 100_000)
	for rule, c := range map[string]struct{ text, want string }{
		"something that follows":          {`{"name": "api", "limits": ["1/s"]} {}`, "something follows the policy (RL202)"},
		"a bracket that follows":          {`{"name": "api", "limits": ["1/s"]}]`, "something follows the policy (RL202)"},
		"text that follows":               {`{"name": "api", "limits": ["1/s"]} x`, "(RL202)"},
		"something that follows null":     {`null null`, "something follows the policy (RL202)"},
		"too many bytes":                  {`{"name": "api", "limits": [` + limits(100_000, `"ten/moment"`) + `]}`, "is too large: at most 512 KiB are read (RL204)"},
		"too many mistakes":               {`{"name": "api", "limits": [` + limits(40_000, `"ten/moment"`) + `]}`, "has too many mistakes: only the first 100 are reported (RL204)"},
		"too many fields":                 {`{` + limits(1, numbered(30_000)) + `}`, "has too many mistakes"},
		"too many overrides":              {`{"name": "api", "limits": ["1/s"], "overrides": {` + numbered(30_000) + `}}`, "has too many mistakes"},
		"too deep":                        {strings.Repeat("[", 100_000), "is nested too deep"},
		"mistakes below a long key":       {`{"name": "api", "limits": ["1/s"], "overrides": {"` + key + `": [` + limits(60, `"ten/moment"`) + `]}}`, "RL103"},
		"a mistake whose value is long":   {`{"name": "api", "limits": ["` + key + `"]}`, "must be at most 1024 bytes long"},
		"control bytes in a key":          {`{"name": "api", "limits": ["1/s"], "overrides": {"\u001b[31m\n\u202e": ["ten/s"]}}`, `Policy.Overrides.…[0].RefillRate: "ten"`},
		"control bytes in a field's name": {`{"name": "api", "limits": ["1/s"], "\u001b[31m": 1}`, `"\x1b[31m" is not a field`},
		"control bytes in a unit":         {`{"name": "api", "limits": [{"\u001b[31m": 5}]}`, `needs an interval: write \x1b[31m: 5/min`},
	} {
		p := core.Policy{Name: "before"}
		err := p.UnmarshalJSON([]byte(c.text))
		require.ErrorContains(t, err, c.want, rule)
		assert.Less(t, len(err.Error()), 64<<10, "%s: an error is short", rule)
		assert.Negative(t, strings.IndexFunc(err.Error(), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }), "%s: what can't be printed is escaped: %.200q", rule, err.Error())
		assert.Equal(t, "before", p.Name, "%s: the policy stays as it is", rule)
	}
}

// numbered is fields of an object that are numbers.
func numbered(n int) string {
	fields := make([]string, n)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"f%d":1`, i)
	}
	return strings.Join(fields, ",")
}

func TestLimitsOfUnitsInJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"Tokens": "5/min"}`:   "5 tokens/min",
		`{"Requests": "5/min"}`: "5/min",
		`"5 Requests/min"`:      "5/min",
		`{"unit": "Tokens", "refill_rate": 5, "refill_interval": "min"}`: "5 tokens/min",
	} {
		var p core.Policy
		require.NoError(t, json.Unmarshal([]byte(`{"name": "a", "limits": [`+text+`]}`), &p), text)
		assert.Equal(t, want, p.Limits[0].String(), text)
	}
	for text, want := range map[string]string{
		`{"req": "5/min"}`:                               `Policy.Limits[0].Unit: "req" is not a unit but looks like requests`,
		`{"limit": "5/min"}`:                             `Policy.Limits[0].Unit: "limit" is not a unit but a word of limits`,
		`{"burst": "5/min"}`:                             `Policy.Limits[0].Unit: "burst" is not a unit but a word of limits`,
		`{"60/min burst": 20}`:                           `Policy.Limits[0]: "60/min burst: 20" is a limit with a colon in it, so it is a mapping: write 60/min burst 20`,
		`{"60/min burst": "20"}`:                         `write 60/min burst 20`,
		`{"60/min burst": "20/min"}`:                     `write 60/min burst 20/min`,
		`{"Mode": "5/min"}`:                              `"mode" is not a unit but a word of limits`,
		`{"tokens": "5 images/min"}`:                     `"images" is a second unit beside tokens`,
		`{"refill_rate": 1.000, "refill_interval": "s"}`: `Policy.Limits[0].RefillRate: 1.000 can be read as two numbers: write 1000 or 1`,
		`{"refill_rate": 5, "refill_interval": "M"}`:     "write min or month",
		`{"refill_rate": 5, "refill_interval": "day", "location": "Local"}`:    "another place on each machine",
		`{"refill_rate": 5, "refill_interval": "day", "anchor": "0001-01-01"}`: "must be between 1900 and 2200",
	} {
		var p core.Policy
		require.ErrorContains(t, json.Unmarshal([]byte(`{"name": "a", "limits": [`+text+`]}`), &p), want, text)
	}
}
