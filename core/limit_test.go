package core_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
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

func TestNewLimiterReportsInvalidShorthands(t *testing.T) {
	for name, l := range map[string]core.Limit{
		"0": core.PerSecond(0), "-1": core.PerMinute(-1), "NaN": core.PerHour(math.NaN()), "+Inf": core.PerDay(math.Inf(1)),
		"-Inf": core.PerDay(math.Inf(-1)), "1e15": core.PerSecond(1e15), "MaxFloat64": core.PerSecond(math.MaxFloat64),
		"MaxInt64": core.PerSecond(int64(math.MaxInt64)),
	} {
		if _, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{l}}); err == nil {
			t.Errorf("a limit of %s must be refused: %+v", name, l)
		}
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

func TestParseLimit(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]core.Limit{
		"100/min":                        core.PerMinute(100),
		"100/min burst 20":               core.PerMinute(100).WithBurst(20),
		"100/m":                          core.PerMinute(100),
		"100/Minutes":                    core.PerMinute(100),
		" \t100 / MIN   BURST 20\r\n":    core.PerMinute(100).WithBurst(20),
		"5/s":                            core.PerSecond(5),
		"5/second":                       core.PerSecond(5),
		"5/hour":                         core.PerHour(5),
		"5/d":                            core.PerDay(5),
		"10/week":                        {Capacity: 10, RefillRate: 10, RefillInterval: 7 * day},
		"10/2 weeks":                     {Capacity: 10, RefillRate: 10, RefillInterval: 14 * day},
		"10/2w stepped":                  {Capacity: 10, RefillRate: 10, RefillInterval: 14 * day, Mode: core.Stepped},
		"100/5min":                       {Capacity: 100, RefillRate: 100, RefillInterval: 5 * time.Minute},
		"5/15m":                          {Capacity: 5, RefillRate: 5, RefillInterval: 15 * time.Minute},
		"17/1m30s":                       {Capacity: 17, RefillRate: 17, RefillInterval: 90 * time.Second},
		"17/1 h 30 min":                  {Capacity: 17, RefillRate: 17, RefillInterval: 90 * time.Minute},
		"17/0.5h":                        {Capacity: 17, RefillRate: 17, RefillInterval: 30 * time.Minute},
		"17/250ms":                       {Capacity: 17, RefillRate: 17, RefillInterval: 250 * time.Millisecond},
		"17/1.5µs":                       {Capacity: 17, RefillRate: 17, RefillInterval: 1500},
		"17/1.5μs":                       {Capacity: 17, RefillRate: 17, RefillInterval: 1500},
		"0.1/s burst 5":                  {Capacity: 5, RefillRate: 0.1, RefillInterval: time.Second},
		"1_000_000/day aligned":          core.PerDay(1_000_000).WithMode(core.Aligned),
		"1e3/day continuous":             core.PerDay(1000),
		"100/min name api":               core.PerMinute(100).WithName("api"),
		"100/min name Burst stepped":     core.PerMinute(100).WithName("Burst").WithMode(core.Stepped),
		`100/min name "a \"b\" \\ / c"`:  core.PerMinute(100).WithName(`a "b" \ / c`),
		`1/h aligned name "x" burst 1e1`: core.PerHour(1).WithBurst(10).WithName("x").WithMode(core.Aligned),
	} {
		got, err := core.ParseLimit(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, want, got, "%q", text)
	}
}

func TestLimitStringIsCanonical(t *testing.T) {
	for want, l := range map[string]core.Limit{
		"100/min":                          core.PerMinute(100),
		"100/min burst 20":                 core.PerMinute(100).WithBurst(20),
		"0.5/s burst 1":                    core.PerSecond(0.5),
		"1000000/day aligned name daily":   core.PerDay(1e6).WithMode(core.Aligned).WithName("daily"),
		"17/90s stepped":                   {Capacity: 17, RefillRate: 17, RefillInterval: 90 * time.Second, Mode: core.Stepped},
		"1/2weeks":                         {Capacity: 1, RefillRate: 1, RefillInterval: 14 * 24 * time.Hour},
		"1/week":                           {Capacity: 1, RefillRate: 1, RefillInterval: 7 * 24 * time.Hour},
		"1/3days":                          {Capacity: 1, RefillRate: 1, RefillInterval: 72 * time.Hour},
		"1/1000000001ns":                   {Capacity: 1, RefillRate: 1, RefillInterval: time.Second + 1},
		"1/us":                             {Capacity: 1, RefillRate: 1, RefillInterval: time.Microsecond},
		`1/h name "two words, \"one\" \\"`: core.PerHour(1).WithName(`two words, "one" \`),
		"0/0s":                             {},
	} {
		require.Equal(t, want, l.String())
	}
}

func TestParseLimitReportsEveryMistake(t *testing.T) {
	for text, want := range map[string][]string{
		"":                           {"Limit: "},
		"100":                        {"Limit: 100"},
		"100 per minute":             {"Limit: 100 per minute"},
		"/":                          {"Limit.RefillRate: ", "Limit.RefillInterval: "},
		"ten/min":                    {"Limit.RefillRate: ten"},
		"1,000/min":                  {"Limit.RefillRate: 1,000"},
		"010/min":                    {"Limit.RefillRate: 010"},
		"1__0/min":                   {"Limit.RefillRate: 1__0"},
		"1_/min":                     {"Limit.RefillRate: 1_"},
		"+1/min":                     {"Limit.RefillRate: +1"},
		".5/min burst 1":             {"Limit.RefillRate: .5"},
		"0x10/min":                   {"Limit.RefillRate: 0x10"},
		"inf/min":                    {"Limit.RefillRate: inf"},
		"1e999/min":                  {"Limit.RefillRate: 1e999"},
		"1e-999999999/min":           {"Limit.RefillRate: 1e-999999999"},
		"0e999999999/min":            {"Limit.RefillRate: 0"},
		"0.10000000000000000001/s":   {"Limit.RefillRate: 0.10000000000000000001"},
		"9007199254740993/s burst 1": {"Limit.RefillRate: 9007199254740993"},
		"-5/min":                     {"Limit.RefillRate: -5"},
		"0/min":                      {"Limit.RefillRate: 0"},
		"1e16/min":                   {"Limit.Capacity: 1000000000000000"},
		"1/moon":                     {"Limit.RefillInterval: moon"},
		"1/5":                        {"Limit.RefillInterval: 5"},
		"1/5m30":                     {"Limit.RefillInterval: 5m30"},
		"1/min,":                     {"Limit.RefillInterval: min,"},
		"1/0.1ns":                    {"Limit.RefillInterval: 0.1ns"},
		"1/0s":                       {"Limit.RefillInterval: 0s"},
		"1/-5s":                      {"Limit.RefillInterval: -5s"},
		"1/6000weeks":                {"Limit.RefillInterval: 6000weeks"},
		"1/9999999999999 weeks":      {"Limit.RefillInterval: 9999999999999 weeks"},
		"1/min burst":                {"Limit.Capacity: "},
		"1/min burst 0":              {"Limit.Capacity: 0"},
		"1/min burst 1.5":            {"Limit.Capacity: 1.5"},
		"1/min burst 1e300":          {"Limit.Capacity: 1e300"},
		"1/min burst 2 burst 3":      {"Limit.Capacity: 3"},
		"1/min stepped aligned":      {"Limit.Mode: aligned"},
		"1/min name":                 {"Limit.Name: "},
		`1/min name ""`:              {`Limit.Name: ""`},
		`1/min name "x`:              {`Limit.Name: "x`},
		`1/min name "x\n"`:           {`Limit.Name: "x\n"`},
		`1/min name "x"y`:            {`Limit.Name: "x"`, "Limit: y"},
		`1/min name x"y`:             {`Limit.Name: x"y`},
		"1/min name naïve":           {"Limit.Name: naïve"},
		"1/min brust 5 soon":         {"Limit: brust", "Limit: 5", "Limit: soon"},
		"ten/moment burst x":         {"Limit.RefillRate: ten", "Limit.RefillInterval: moment", "Limit.Capacity: x"},
		strings.Repeat("9", 1025):    {"Limit: " + strings.Repeat("9", 1025)},
	} {
		t.Run(text, func(t *testing.T) {
			l, err := core.ParseLimit(text)
			require.Error(t, err)
			reports(t, err, want...)
			require.Zero(t, l, "a limit with mistakes is not returned")
			require.Equal(t, 1, strings.Count(err.Error(), "RATE [UNIT]/INTERVAL"), "the message shows the grammar, once: %v", err)
			require.Contains(t, err.Error(), "[continuous|stepped|aligned]", "all of it")
		})
	}
}

// drawName is a name or none.
var drawName = rapid.StringOfN(rapid.Custom(func(t *rapid.T) rune { return rune(rapid.IntRange(' ', '~').Draw(t, "char")) }), 0, 128, 128)

func TestEveryLimitSurvivesItsString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.OneOf(limitdraw.Limit, drawHolding).Draw(t, "limit").WithName(drawName.Draw(t, "name"))
		got, err := core.ParseLimit(l.String())
		if err != nil || got != l {
			t.Fatalf("ParseLimit must read what String wrote, to the last bit: %q\n got %#v, %v\nwant %#v", l.String(), got, err, l)
		}
		if len(l.String()) > 1024 {
			t.Fatalf("no limit is longer than ParseLimit reads: %q", l.String())
		}
	})
}

// The text of a limit on a calendar names the same instant, also in an hour
// that clocks show twice.
func TestEveryAnchorSurvivesItsString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limitdraw.CalendarLimit.Draw(t, "limit").WithUnit(rapid.SampledFrom([]string{"", "tokens", "gpu hours"}).Draw(t, "unit"))
		l = l.In(limitdraw.Zone(rapid.SampledFrom(append([]string{"Europe/Amsterdam", "America/Santiago", "Africa/Monrovia", "Etc/GMT+2"}, limitdraw.Zones...)).Draw(t, "zone")))
		l = l.Anchored(limitdraw.Anchor(l.Location).Draw(t, "anchor"))
		if !limitdraw.Valid(l) {
			return
		}
		got, err := core.ParseLimit(l.String())
		if err == nil && got.Location.String() == l.Location.String() {
			got.Location = l.Location // loaded another time
		}
		if err != nil || got != l {
			t.Fatalf("ParseLimit must read what String wrote, to the last bit: %q\n got %#v, %v\nwant %#v", l.String(), got, err, l)
		}
	})
}

func TestAnchorsWhereClocksAreSet(t *testing.T) {
	berlin := limitdraw.Zone("Europe/Berlin")
	twice := core.PerDay(5).In(berlin)
	for text, utc := range map[string]string{
		"5/day in Europe/Berlin from 2025-10-26T02:30":    "2025-10-26T00:30:00Z", // the first of two
		"5/day in Europe/Berlin from 2025-10-26T01:30Z":   "2025-10-26T01:30:00Z",
		"5/day in Europe/Berlin from 2025-10-26T01:59":    "2025-10-25T23:59:00Z",
		"5/day in Europe/Berlin from 2025-10-26T03:00":    "2025-10-26T02:00:00Z",
		"5/day in Europe/Berlin from 2025-10-26T01:30:5Z": "",
	} {
		l, err := core.ParseLimit(text)
		if utc == "" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, utc, l.Anchor.Format(time.RFC3339), text)
		require.Equal(t, text, l.String())
		require.Equal(t, text, twice.Anchored(l.Anchor).String())
	}
	for text, reason := range map[string]string{
		"5/day in Europe/Berlin from 2026-03-29T02:30":  "clocks in Europe/Berlin left out",
		"5/day in America/Sao_Paulo from 2018-11-04":    "clocks in America/Sao_Paulo left out",
		"5/month from 0001-01-01":                       "must be between 1900 and 2200",
		"5/month from 0001-01-01T00:00Z":                "must be between 1900 and 2200",
		"5/month from 2201-01-01":                       "must be between 1900 and 2200",
		"5/month in Europe/Berlin from 1899-12-31":      "must be between 1900 and 2200",
		"5/month from 2025-10-31 12:00":                 "is not understood",
		"5/month from 2025-10-31T12:00 from 2025-10-31": "is given a second time",
	} {
		_, err := core.ParseLimit(text)
		require.ErrorContains(t, err, reason, text)
	}
	never := core.PerMonth(5).Anchored(time.Time{})
	reports(t, core.Policy{Name: "a", Limits: []core.Limit{never}}.Validate(), "Policy.Limits[0].Anchor: 0001-01-01T00:00:00Z")
}

// Text that a person reads as something else than a program does is refused,
// with what to write.
func TestTextWithTwoReadings(t *testing.T) {
	for text, reason := range map[string]string{
		"1.000/min":                     "write 1000 or 1",
		"12.345/min burst 5":            "write 12345 or 12.3450",
		"5/min burst 1.000":             "write 1000 or 1",
		"1_0_0/min":                     "a group of three digits",
		"1 000/min":                     "write thousands without space",
		"5/1h1h":                        "each unit once",
		"5/30m1h":                       "the largest first",
		"5/h 30m":                       "a count in front of each unit",
		"1/M":                           "write min or month",
		"1/m\u0130n":                    "must be a time",
		"1/wee\u212a":                   "must be a time",
		"1/min \u017ftepped":            "is not understood",
		"5/min 20":                      "did you mean burst 20?",
		"5/min burst: 20":               "did you mean burst?",
		"5/min continous":               "did you mean continuous?",
		"5 per 15 min":                  "did you mean 5/15 min?",
		"5rps":                          "did you mean 5/s?",
		"5/day in Local":                "another place on each machine",
		"5/day in LOCAL":                "another place on each machine",
		"5/day in localtime":            "is not a time zone",
		"5/day in Europe//Berlin":       "is not a time zone",
		"5/day in Europe/./Berlin":      "is not a time zone",
		"5/day in posix/Europe/Berlin":  "is not a time zone",
		"5/day in right/Europe/Berlin":  "is not a time zone",
		"5/day in utc":                  "write UTC",
		"5/day in america/new_york":     "write America/New_York",
		"5/day in UTC+2":                "is an offset",
		"5/day in +02:00":               "is an offset",
		"3 req/min":                     "write requests",
		"5 rate/min":                    "to count requests, leave it out",
		"5 k/min":                       "too short for a unit",
		"5 thousand/min":                "write the number in digits",
		"5 tokens per/min":              "a word of limits",
		"5 \"requests per\"/min":        "a word of limits",
		"5/min name api burst 5 max 20": "is not understood",
	} {
		_, err := core.ParseLimit(text)
		require.ErrorContains(t, err, reason, text)
	}
	for text, want := range map[string]core.Limit{
		"5 Requests/min":                    core.PerMinute(5),
		"5 \"REQUESTS\"/MIN":                core.PerMinute(5),
		"5 Tokens/Min":                      core.PerMinute(5).WithUnit("tokens"),
		"5/min Burst 20":                    core.PerMinute(5).WithBurst(20),
		"1000.125/s burst 5":                {Capacity: 5, RefillRate: 1000.125, RefillInterval: time.Second},
		"33.3330/s burst 5":                 {Capacity: 5, RefillRate: 33.333, RefillInterval: time.Second},
		"5/day in Etc/GMT+2":                core.PerDay(5).In(core.Must(core.ParseLimit("5/day in \"Etc/GMT+2\"")).Location),
		"5/1.5 h":                           {Capacity: 5, RefillRate: 5, RefillInterval: 90 * time.Minute},
		"5/day from 2025-10-31T12:00+02:00": core.PerDay(5).Anchored(time.Date(2025, 10, 31, 10, 0, 0, 0, time.UTC)),
	} {
		got, err := core.ParseLimit(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestEveryDurationIsAnInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := core.Limit{Capacity: 5, RefillRate: 5, RefillInterval: limitdraw.Interval.Draw(t, "interval")}
		got, err := core.ParseLimit("5/" + l.RefillInterval.String())
		if !limitdraw.Valid(l) {
			return
		}
		if err != nil || got != l {
			t.Fatalf("ParseLimit must read intervals as Go prints them: %v: %v, %v", l.RefillInterval, got, err)
		}
	})
}

func TestExtremeRatesSurviveTheirString(t *testing.T) {
	for _, rate := range []float64{1e300, math.MaxFloat64, 1e21, 1e16, 123456789012345680, 1e-9, 3.3e-10} {
		l := core.Limit{Capacity: 1, RefillRate: rate, RefillInterval: time.Second}
		require.True(t, limitdraw.Valid(l), "the premise: %v is valid", rate)
		got, err := core.ParseLimit(l.String())
		require.NoError(t, err)
		require.Equal(t, l, got, "%q", l.String())
	}
}

func TestLimitsAreStringsInJSON(t *testing.T) {
	type config struct{ Limit core.Limit }
	text, err := json.Marshal(config{core.PerMinute(100).WithBurst(20)})
	require.NoError(t, err)
	require.JSONEq(t, `{"Limit":"100/min burst 20"}`, string(text))
	var c config
	require.NoError(t, json.Unmarshal(text, &c))
	require.Equal(t, core.PerMinute(100).WithBurst(20), c.Limit)

	text, err = json.Marshal(config{})
	require.NoError(t, err, "a limit that is not set can be written")
	require.NoError(t, json.Unmarshal(text, &c))
	require.Zero(t, c.Limit, "and read")

	_, err = json.Marshal(config{core.Limit{Capacity: -1, RefillRate: 1, RefillInterval: time.Second}})
	reports(t, err, "Limit.Capacity: -1")
	before := core.PerHour(3)
	reports(t, before.UnmarshalText([]byte("x/min")), "Limit.RefillRate: x")
	require.Equal(t, core.PerHour(3), before, "a mistake leaves the limit as it was")
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
