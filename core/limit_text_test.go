package core_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
)

func TestParseLimitReadsEveryForm(t *testing.T) {
	const day = 24 * time.Hour
	berlin := limitdraw.Zone("Europe/Berlin")
	for text, want := range map[string]core.Limit{
		" \t100 / min   burst 20\r\n":    core.PerMinute(100).WithBurst(20),
		"100/m":                          core.PerMinute(100),
		"100/minutes":                    core.PerMinute(100),
		"5/sec":                          core.PerSecond(5),
		"5/hour":                         core.PerHour(5),
		"5/d":                            core.PerDay(5),
		"10/week":                        core.Per(10, 7*day),
		"10/2 weeks":                     core.Per(10, 14*day),
		"10/2w stepped":                  core.Per(10, 14*day).WithMode(core.Stepped),
		"17/1m30s":                       core.Per(17, 90*time.Second),
		"17/1h 30m":                      core.Per(17, 90*time.Minute),
		"17/0.5h":                        core.Per(17, 30*time.Minute),
		"17/1.5µs":                       core.Per(17, 1500*time.Nanosecond),
		"17/3μs":                         core.Per(17, 3*time.Microsecond),
		"1_000_000/day aligned":          core.PerDay(1_000_000).WithMode(core.Aligned),
		"1e3/day continuous":             core.PerDay(1000),
		"100/min name burst stepped":     core.PerMinute(100).WithName("burst").WithMode(core.Stepped),
		"100/min name 1/2:3":             core.PerMinute(100).WithName("1/2:3"),
		"5 requests/min":                 core.PerMinute(5),
		"5 tokens / min":                 core.PerMinute(5).WithUnit("tokens"),
		`5 "gpu hours"/min`:              core.PerMinute(5).WithUnit("gpu hours"),
		`5 "at"/min`:                     core.PerMinute(5).WithUnit("at"),
		`3 "a/b at once" at once`:        core.InFlight(3).WithUnit("a/b at once"),
		"5 requests at once":             core.InFlight(5),
		"5 at once hold 2m name exports": core.InFlight(5).WithMaxHold(2 * time.Minute).WithName("exports"),
		"5 at once hold 30 days":         core.InFlight(5).WithMaxHold(30 * day),
		`5 at once name "60/min"`:        core.InFlight(5).WithName("60/min"),
		`60/min name "5 at once"`:        core.PerMinute(60).WithName("5 at once"),
		"9 tokens/min hold 10m burst 8":  core.PerMinute(9).WithUnit("tokens").WithMaxHold(10 * time.Minute).WithBurst(8),
		"10/week in UTC":                 core.PerWeek(10),
		"5/15m penalty 1h":               core.Per(5, 15*time.Minute).WithPenalty(time.Hour),
		`10/day in "Europe/Berlin"`:      core.PerDay(10).In(berlin),
		"10/3mo from 2025-10-31 in Europe/Berlin": core.Per(10, 3*core.Month).In(berlin).Anchored(time.Date(2025, 10, 31, 0, 0, 0, 0, berlin)),
		"5/day from 2025-10-31T12:00:00+02:00":    core.PerDay(5).Anchored(time.Date(2025, 10, 31, 10, 0, 0, 0, time.UTC)),
	} {
		got := core.Must(core.ParseLimit(text))
		require.Equal(t, want, got, "%q", text)
	}
}

func TestLimitStringIsCanonical(t *testing.T) {
	for want, l := range map[string]core.Limit{
		"100/min":                                core.PerMinute(100),
		"100/min burst 20":                       core.PerMinute(100).WithBurst(20),
		"0.5/s":                                  core.PerSecond(0.5),
		"0.5/s burst 2":                          core.PerSecond(0.5).WithBurst(2),
		"1000000/day aligned name daily":         core.PerDay(1e6).WithMode(core.Aligned).WithName("daily"),
		"17/90s stepped":                         core.Per(17, 90*time.Second).WithMode(core.Stepped),
		"1/2weeks":                               core.Per(1, 14*24*time.Hour),
		"1/1000000001ns":                         core.Per(1, time.Second+1),
		"1/us":                                   core.Per(1, time.Microsecond),
		`1/h name "two words, \"one\" \\"`:       core.PerHour(1).WithName(`two words, "one" \`),
		"5/day in Europe/Berlin from 2025-10-31": core.PerDay(5).In(limitdraw.Zone("Europe/Berlin")).Anchored(time.Date(2025, 10, 31, 0, 0, 0, 0, limitdraw.Zone("Europe/Berlin"))),
		"5/month from 2025-10-31T12:00:00Z":      core.PerMonth(5).Anchored(time.Date(2025, 10, 31, 12, 0, 0, 0, time.UTC)),
		"5/year":                                 core.Per(5, 12*core.Month).WithMode(core.Aligned),
		"8 gpus at once hold 90s":                core.InFlight(8).WithUnit("gpus").WithMaxHold(90 * time.Second),
		"5 at once hold 0s":                      core.InFlight(5).WithMaxHold(0),
		"5 at once":                              core.InFlight(5),
		"5 at once hold 90s name exports":        core.InFlight(5).WithMaxHold(90 * time.Second).WithName("exports"),
		"100000 tokens/min hold 10min":           core.PerMinute(100_000).WithUnit("tokens").WithMaxHold(10 * time.Minute),
		"9 tokens/month burst 8 hold 1500ms":     core.PerMonth(9).WithBurst(8).WithUnit("tokens").WithMaxHold(1500 * time.Millisecond),
		"0/0s burst 0":                           {},
		"1/s mode(7)":                            core.PerSecond(1).WithMode(7),
	} {
		require.Equal(t, want, l.String())
		if limitdraw.Valid(l) {
			require.Equal(t, l, core.Must(core.ParseLimit(want)))
		}
	}
}

// A text that can't be read is one mistake, which says what is wrong and shows
// how to write a limit.
func TestTextThatIsNoLimit(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "it has no / between a rate and an interval",
		"10 per minute":                   `"per" must be followed by / and an interval, or by at once`,
		"5 in flight":                     `"in" must be followed by / and an interval, or by at once`,
		"5 at a time":                     `"at" must be followed by once`,
		"ten/moment":                      `"ten" is not a number`,
		"1,000/min":                       `"1,000" is not a number`,
		"1 000/min":                       `"000" is a second number: write 1000 or 1_000`,
		"+1/min":                          `"+1" is not a number`,
		"NaN/min":                         `"NaN" is not a number`,
		"1e999/min":                       `"1e999" is not a number`,
		"5.5 at once":                     `"5.5" is not a whole number, such as 100 or 1_000`,
		"5/moment":                        `"moment" is not an interval, such as min, 30s, 2weeks or 1h30m`,
		"5/":                              `"" is not an interval`,
		"5/min 20":                        `"min20" is not an interval`,
		"5/1.5 weeks":                     `"1.5weeks" is not an interval`,
		"5/9999999999999 weeks":           `"9999999999999weeks" is too long a time`,
		"5/99999999999999999999999 d":     `"99999999999999999999999d" is too long a time`,
		"10/s brust 20":                   `"brust" is not understood`,
		"10/s Burst 20":                   `"Burst" is not understood`,
		"10/s burst":                      `"burst" must be followed by a value`,
		"10/s burst 1.5":                  `"1.5" is not a whole number`,
		"10/s burst 99999999999999999999": `"99999999999999999999" is not a whole number`,
		"10/s burst 20 burst 20":          `"burst" is given a second time`,
		"10/s stepped aligned":            `"aligned" is given a second time`,
		"5 at once burst 10":              `"burst" is not understood`,
		"5 at once in UTC":                `"in" is not understood`,
		"5 at once hold 10":               `"10" is not an interval`,
		"5/day in Local":                  `"Local" is another place on each machine`,
		"5/day in Europe/Berlinn":         `"Europe/Berlinn" is not a time zone, such as Europe/Berlin`,
		"5/day in ../etc/passwd":          `"../etc/passwd" is not a time zone`,
		"5/day from yesterday":            `"yesterday" is neither a day, such as 2025-10-31, nor an instant, such as 2025-10-31T12:00:00Z`,
		"5/day from 2025-02-30":           `"2025-02-30" is neither a day`,
		"5/day from 0001-01-01":           `"0001-01-01" must be between 1900 and 2200`,
		"5/day from 2201-01-01T00:00:00Z": `"2201-01-01T00:00:00Z" must be between 1900 and 2200`,
		`1/min name "x`:                   "a quote is not closed, or not followed by space",
		`1/min name "x\n"`:                "a quote is not closed, or not followed by space",
		`1/min name ""`:                   `"" is empty`,
		`1/min name x"y`:                  `"x\"y" has a quote inside`,
		strings.Repeat("9", 1025):         "it is longer than 1024 bytes",
	} {
		l, err := core.ParseLimit(text)
		require.ErrorContains(t, err, " is not a limit: "+want, text)
		require.ErrorContains(t, err, "; write it as 60/min burst 20 (RL110)", text)
		require.Len(t, mistakes(err), 1, "%v", err)
		require.Zero(t, l, "a limit with mistakes is not returned")
	}
	require.Equal(t, core.PerMinute(60).WithBurst(20), core.Must(core.ParseLimit("60/min burst 20")), "the line that messages show is right")
}

// Text that can be read, but means no limit, has all its mistakes reported.
func TestTextOfLimitsThatAreNotValid(t *testing.T) {
	for text, want := range map[string][]string{
		"-1/-1s burst -1":    {"Capacity: -1", "RefillRate: -1", "RefillInterval: -1s"},
		"1e15/s":             {"Capacity: 1e+15"},
		"1/101 years":        {"RefillInterval: " + (101 * 12 * core.Month).String()},
		"1/5min in UTC":      {"RefillInterval: 5m0s"},
		"1/month continuous": {"Mode: Continuous"},
		"5 Tokens/min":       {"Unit: Tokens"},
		"5/min name naïve":   {"Name: naïve"},
		"60/min hold 1m":     {"MaxHold: 1m0s"},
	} {
		l, err := core.ParseLimit(text)
		require.Zero(t, l, text)
		var read core.Limit
		require.NoError(t, read.UnmarshalText([]byte(text)), "%q can be read", text)
		invalid := core.Policy{Name: "a", Limits: []core.Limit{read}}.Validate()
		for _, list := range [][]string{mistakes(err), mistakes(invalid)} {
			require.Len(t, list, len(want), text)
		}
		for _, each := range want {
			require.Contains(t, mistakes(err), "Limit."+each)
			require.Contains(t, mistakes(invalid), "Policy.Limits[0]."+each)
		}
	}
}

// drawName is a name or none.
var drawName = rapid.StringOfN(rapid.Custom(func(t *rapid.T) rune { return rune(rapid.IntRange(' ', '~').Draw(t, "char")) }), 0, 128, 128)

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

// sameText checks that the text and the JSON of a limit are that limit, to the
// last bit.
func sameText(t require.TestingT, l core.Limit) {
	text := l.String()
	got, err := core.ParseLimit(text)
	require.NoError(t, err)
	require.Equal(t, l, got, "ParseLimit must read what String wrote: %q", text)
	data, err := json.Marshal(l)
	require.NoError(t, err)
	var back core.Limit
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, l, back, "JSON must be read as it was written: %s", data)
	require.LessOrEqual(t, len(text), 1024, "no limit is longer than ParseLimit reads: %q", text)
}

func TestEveryLimitSurvivesItsTextAndJSON(t *testing.T) {
	units := rapid.OneOf(rapid.SampledFrom([]string{"", "tokens", "gpu hours", "at", "once", "5", "a/b", `"`}), rapid.StringMatching("[ -@\\[-~]{1,20}"))
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.OneOf(limitdraw.Limit, drawHolding).Draw(t, "limit").WithName(drawName.Draw(t, "name"))
		if l.Unit != "" || l.MaxHold == 0 {
			if l.Unit = units.Draw(t, "unit"); l.Unit == core.Requests || l.Unit == "" && l.MaxHold != 0 && l.Mode != core.Concurrent {
				l.Unit = "x"
			}
		}
		sameText(t, l)
		if plain := core.Per(5, limitdraw.Interval.Draw(t, "interval")); limitdraw.Valid(plain) {
			got, err := core.ParseLimit("5/" + plain.RefillInterval.String())
			require.NoError(t, err)
			require.Equal(t, plain, got, "ParseLimit must read intervals as Go prints them")
		}
	})
	for _, rate := range []float64{1e300, math.MaxFloat64, 1e21, 1e16, 123456789012345680, 1e-9, 3.3e-10} {
		sameText(t, core.Limit{Capacity: 1, RefillRate: rate, RefillInterval: time.Second})
	}
}

// The text of a limit on a calendar names the same instant, also in an hour
// that clocks show twice.
func TestEveryAnchorSurvivesItsTextAndJSON(t *testing.T) {
	zones := rapid.SampledFrom(append([]string{"Europe/Amsterdam", "America/Santiago", "Africa/Monrovia", "Etc/GMT+2"}, limitdraw.Zones...))
	rapid.Check(t, func(t *rapid.T) {
		zone := core.Must(core.ParseLimit("1/day in " + zones.Draw(t, "zone"))).Location
		l := limitdraw.CalendarLimit.Draw(t, "limit").In(zone)
		if l = l.Anchored(limitdraw.Anchor(zone).Draw(t, "anchor")); limitdraw.Valid(l) {
			sameText(t, l)
		}
	})
}

func TestDaysOfAnchorsBeginWhenClocksSay(t *testing.T) {
	for text, utc := range map[string]string{
		"5/day in Europe/Berlin from 2025-10-26":           "2025-10-25T22:00:00Z",
		"5/day in Europe/Berlin from 2025-10-26T01:30:00Z": "2025-10-26T01:30:00Z",
		"5/day in America/Sao_Paulo from 2018-11-04":       "2018-11-04T03:00:00Z", // its midnight was skipped
		"5/day from 2025-10-26":                            "2025-10-26T00:00:00Z",
	} {
		l := core.Must(core.ParseLimit(text))
		require.Equal(t, utc, l.Anchor.Format(time.RFC3339), text)
		require.Equal(t, text, l.String())
	}
	never := core.PerMonth(5).Anchored(time.Time{})
	reports(t, core.Policy{Name: "a", Limits: []core.Limit{never}}.Validate(), "Policy.Limits[0].Anchor: 0001-01-01T00:00:00Z")
}

func TestLimitsAreStringsInJSON(t *testing.T) {
	type config struct{ Limit core.Limit }
	text, err := json.Marshal(config{core.PerMinute(100).WithBurst(20)})
	require.NoError(t, err)
	require.JSONEq(t, `{"Limit":"100/min burst 20"}`, string(text))

	var c config
	text, err = json.Marshal(c)
	require.NoError(t, err, "a limit that is not set can be written")
	require.NoError(t, json.Unmarshal(text, &c))
	require.Zero(t, c.Limit, "and read")

	before := core.PerHour(3)
	require.ErrorContains(t, before.UnmarshalText([]byte("x/min")), `"x" is not a number`)
	require.Equal(t, core.PerHour(3), before, "a mistake leaves the limit as it was")
}

// What could not be read as the same limit is not written.
func TestLimitsWithoutATextAreNotWritten(t *testing.T) {
	for want, l := range map[string]core.Limit{
		"Limit.Capacity: -1":     core.PerSecond(1).WithBurst(-1),
		`Limit.Location: here`:   core.PerDay(1).In(time.FixedZone("here", 60)),
		`Limit.Location: Local`:  core.PerDay(1).In(time.Local), //nolint:gosmopolitan // the text names no place
		`Limit.Mode: Continuous`: core.PerMonth(1).WithMode(core.Continuous),
	} {
		_, err := l.MarshalText()
		reports(t, err, want)
	}
	text := core.Must(core.PerMinute(5).WithUnit(core.Requests).MarshalText())
	assert.Equal(t, "5/min", string(text))
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{"100/min burst 20", "0.1/s burst 5", `1_000/2 weeks aligned name "a \"b\" \\"`, "5/1h30m stepped name x",
		"1e-9/ns burst 1e3", "-1/-1s burst -1", "1/1.5µs", "\x00/\xff", "1/min name \"", "9/9999999999999999999w",
		"5 \"gpu hours\"/day in Europe/Berlin from 2025-10-26T01:30Z", "1.000/h30m in Etc/GMT+2", "33.3330 Tokens/M", "5/day in America/Sao_Paulo from 2018-11-04T00:30",
		"5 at once hold 2m name exports", "8 gpus AT  ONCE", `3 "a/b at once" at once`, "100_000 tokens/min hold 10m", "max 5", "5/at once hold=2m", "5 in flight/min, hold 1ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := core.ParseLimit(text)
		if err != nil {
			if len(mistakes(err)) == 0 {
				t.Fatalf("every refusal names its mistakes: %q: %v", text, err)
			}
			return
		}
		if !limitdraw.Valid(l) {
			t.Fatalf("what is read is valid: %q: %#v", text, l)
		}
		if again, err := core.ParseLimit(l.String()); err != nil || again != l {
			t.Fatalf("what is read survives String: %q, %q\n got %#v, %v\nwant %#v", text, l, again, err, l)
		}
	})
}
