package policyfile_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// places lists the mistakes in err as "line:column field value", in their
// order.
func places(t *testing.T, err error) []string {
	t.Helper()
	var list []string
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "all mistakes are joined: %v", err)
	for _, each := range joined.Unwrap() {
		var e *policyfile.Error
		require.ErrorAs(t, each, &e)
		require.NotEmpty(t, e.Reason)
		require.Regexp(t, `^RL\d{3}$`, e.Code())
		require.Positive(t, e.Line)
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d:%d %s %s", e.Line, e.Column, e.Field, e.Value)))
	}
	return list
}

func TestParseTellsEveryMistakeAndItsPlace(t *testing.T) {
	_, err := policyfile.Parse([]byte(`name: naïve
nam: search
limits:
  - ten/moment burst 0
  - name: daily
    capacity: "ten"
    refill_rate: -1
    refill_interval: 30
    mode: sliding
  - 5
  - capacity: 1.5
    refilRate: 3
    refill-rate: 3
  - 1/s name daily
  - 1/h brust 5
on_failure: FailOpen
local_share: 1.5
local_share: 0.5
headers: [legacy, draft8, draft6, none]
shadow: "yes"
`))
	require.Equal(t, []string{
		"1:7 name \"naïve\"",
		"2:1  \"nam\"",
		"4:5 limits[0].refill_rate \"ten\"",
		"4:5 limits[0].refill_interval \"moment\"",
		"4:5 limits[0].capacity 0",
		"6:15 limits[1].capacity \"ten\"",
		"7:18 limits[1].refill_rate -1",
		"8:22 limits[1].refill_interval 30",
		"9:11 limits[1].mode \"sliding\"",
		"10:5 limits[2] 5",
		"11:5 limits[3].refill_rate",
		"11:5 limits[3].refill_interval",
		"11:15 limits[3].capacity 1.5",
		"12:5 limits[3] \"refilRate\"",
		"13:5 limits[3] \"refill-rate\"",
		"14:5 limits[4].name \"daily\"",
		"15:5 limits[5] \"brust\"",
		"15:5 limits[5] \"5\"",
		"16:13 on_failure \"FailOpen\"",
		"17:14 local_share 1.5",
		"18:1 local_share",
		"19:27 headers[2] \"draft6\"",
		"19:35 headers[3] \"none\"",
		"20:9 shadow \"yes\"",
	}, places(t, err))
	require.ErrorContains(t, err, `line 13:5: limits[3]: "refill-rate" is not a field of a limit: the fields are name, capacity, refill_rate, refill_interval, mode`)
	require.ErrorContains(t, err, `line 14:5: limits[4].name: "daily" is the name of limits[1] already`)
	require.ErrorContains(t, err, "line 8:22: limits[1].refill_interval: 30 needs a unit, such as 30s")
}

// wrongDocuments are policies, and what is said of each.
var wrongDocuments = map[string]string{
	"":                             "line 1: the file is empty",
	"# nothing\n":                  "line 1: the file is empty",
	"---\n":                        "line 1: the file is empty",
	"...\n":                        "line 1: the file is empty",
	"null":                         "line 1: the file is empty",
	"[]":                           `line 1:1: a list must be a policy, a mapping with the fields name, limits, on_failure, local_share, headers, shadow`,
	"api":                          `line 1:1: "api" must be a policy`,
	"{}":                           "line 1:1: name: is required (RL101)\nline 1:1: limits: is required",
	"{name: api, limits: []}":      "line 1:21: limits: [] is an empty list: at least one is required",
	"{name: api, limits: 1/s}":     `line 1:21: limits: "1/s" must be a list of limits`,
	"{name: api, limits: [~]}":     "line 1:22: limits[0]: nothing must be a string such as 100/min burst 20, or a mapping",
	"{name: api, limits: [[1/s]]}": "line 1:22: limits[0]: a list must be",
	"{name: 12, limits: [1/s]}":    "line 1:8: name: 12 must be a string: put it in quotes",
	"name:\nlimits: [1/s]":         "line 1:6: name: nothing must be a string",
	"{name: '', limits: [1/s]}":    `line 1:8: name: "" is required`,
	"{name: api, limits: [1/s], headers: []}":                                          "line 1:37: headers: [] is an empty list",
	"{name: api, limits: [1/s], headers: 7}":                                           "line 1:37: headers: 7 must be default, none, legacy, draft8 or draft6",
	"{name: api, limits: [1/s], headers: [7]}":                                         "line 1:38: headers[0]: 7 must be",
	"{name: api, limits: [1/s], local_share: 0}":                                       "line 1:41: local_share: 0 must be above 0",
	"{name: api, limits: [1/s], local_share: .nan}":                                    "line 1:41: local_share: .nan must be a number such as",
	"{name: api, limits: [{refill_rate: 010, refill_interval: s}]}":                    "line 1:36: limits[0].refill_rate: 010 must be a number",
	"{name: api, limits: [{refill_rate: 1, refill_interval: s, name: ''}]}":            `line 1:65: limits[0].name: "" must not be empty`,
	"{name: api, limits: [{refill_rate: 1e16, refill_interval: s}]}":                   "line 1:22: limits[0].capacity: 1000000000000000 must be from 1",
	"{name: api, limits: [{refill_rate: 1, refill_interval: 300000h, capacity: 5e6}]}": "refill_rate: 1 is too slow",
	"{name: api, limits: [1/s], ? [a] : b}":                                            "line 1:28: ? begins a complex key: write name: value",
	"{name: api, limits: [1/s], <<: 5}":                                                "line 1:32: <<: 5 must be a mapping, or a list of mappings",
	"name: api\nlimits: [1/s]\n---\nname: b\n":                                         "line 3:1: --- begins a second document: put all into one",
	"name: api\nlimits: [1/s\n":                                                        "line 2:9: invalid YAML: sequence end token ']' not found",
	"name: api\nlimits:\n\t- 1/s\n":                                                    "line 3:1: invalid YAML: found character '\\t' that cannot start any token",
	"name: api\n\tlimits: [1/s]\n":                                                     "line 2:1: invalid YAML: found character '\\t' that cannot start any token",
	"name: api\n  \tlimits: [1/s]\n":                                                   "line 1:7: api limits has a tab: write spaces",
	"limits:\n  - name: a\n  \t  capacity: 1\n":                                        "line 3:3: invalid YAML: found character '\\t' that cannot start any token",
	"name: \"a\u0085\"\nlimits: [1/s]":                                                 `line 1:7: name: "a\u0085" must be printable ASCII`,
	"%YAML 2.0\n---\nname: a\nlimits: [1/s]":                                           `line 1:7: invalid YAML: unknown YAML version "2.0"`,
	`{name: "a\qb", limits: [1/s]}`:                                                    "line 1:11: invalid YAML: found unknown escape character",
	`{"name": "a\/b", "limits": ["1/s",,]}`:                                            "line 1:35: invalid YAML: ",
	"name: a\nlimits: [1/s]\n...\nname: b":                                             "line 4:1: name begins a second document",
	"name: a\nlimits: [1/s]\n? shadow\n: true":                                         "line 3:1: ? begins a complex key",
	"name: &a &b x\nlimits: [1/s]":                                                     "line 1:10: invalid YAML: unexpected scalar value type",
	"name: \u0000\nlimits: [1/s]":                                                      "must be printable ASCII",
	"name: !foo a\nlimits: [1/s]":                                                      "line 1:7: !foo is a tag: leave it out",
	"{name: a, limits: [{refill_rate: !foo 5, refill_interval: s}]}":                   "line 1:34: !foo is a tag: leave it out",
	`{name: a, limits: [{refill_rate: "5", refill_interval: s}]}`:                      `line 1:34: limits[0].refill_rate: "5" must be a number without quotes`,
	"{name: a, limits: [{refill_rate: 1e999, refill_interval: s}]}":                    "line 1:34: limits[0].refill_rate: 1e999 is too large",
	"{name: a, limits: [{refill_rate: 1e-999, refill_interval: s}]}":                   "line 1:34: limits[0].refill_rate: 1e-999 is too small",
	"{name: a, limits: [1/s], local_share: 1e999}":                                     "line 1:39: local_share: 1e999 is too large",
	"{name: a, limits: [" + strings.Repeat("1/s, ", 65) + "]}":                         "line 1:19: limits: 65 limits: at most 64 can hold together",
	"{name: a, limits: [100 per minute]}":                                              `line 1:20: limits[0]: "100 per minute" has no slash between a rate and an interval (did you mean 100/minute?): a limit is RATE [UNIT]/INTERVAL`,
	"name: api\nlimits:\n  - *lost\n":                                                  "line 3:5: limits[0]: *lost refers to nothing above it: write &lost in front of a value",
	"name.: api\nlimits: [1/s]":                                                        "line 1:1: \"name.\" is not a field of a policy: the fields are name, limits, on_failure, local_share, headers, shadow, plans, overrides, blocked (RL206)\nline 1:1: name: is required",
	"name: api: b\n":                                                                   "line 1:7: invalid YAML: mapping value is not allowed in this context",
	"name: a\xff\n":                                                                    "line 1: the file is not UTF-8 text",
	"- name: api\nlimits: 5\n":                                                         "line 2:1: invalid YAML: value is not allowed in this context",
	"&a {name: api, <<: *a, limits: [1/s]}":                                            "line 1:20: <<: *a refers to nothing above it",
	"{name: api, limits: &a [*a]}":                                                     "limits[0]: *a refers to nothing above it",
}

func TestWrongDocuments(t *testing.T) {
	for text, want := range wrongDocuments {
		_, err := policyfile.Parse([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
		places(t, err)
	}
	for _, share := range []string{"0", "-0.5", "1.5"} {
		_, err := policyfile.Parse([]byte("{name: a, limits: [1/s], local_share: " + share + "}"))
		require.EqualError(t, err, "line 1:39: local_share: "+share+" must be above 0 and at most 1 (RL113)", "0 means nothing else in a file")
	}
	for text, want := range map[string]string{
		"[]":                         "line 1:1: [] is an empty list: at least one is required",
		"policies: []":               "line 1:11: policies: [] is an empty list",
		"policies:":                  "line 1:11: policies: nothing must be a list of policies",
		"{}":                         "line 1:1: policies: is required",
		"name: api\nlimits: [1/s]\n": `line 1:1: is a single policy: make it a list`,
		"5":                          "line 1:1: 5 must be a file of policies",
		"- {name: a, limits: [1/s]}\n- {name: b, limits: [1/s]}\n- {name: a, limits: [1/s]}\n": `line 3:10: [2].name: "a" is the name of [0] (line 1) already`,
		"policies:\n- name: a\n- limits: [0/s]\n":                                              "line 2:3: policies[0].limits: is required (RL109)\nline 3:3: policies[1].name: is required (RL101)\nline 3:12: policies[1].limits[0].refill_rate: 0 must be a number above 0 (tokens every refill_interval)",
	} {
		policies, err := policyfile.Load(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
		require.Nil(t, policies, "all or nothing")
	}
}

func TestMistakesBeyondTheBoundAreNotTold(t *testing.T) {
	_, err := policyfile.Load(strings.NewReader(strings.Repeat("- \n", 200)))
	list := places(t, err)
	require.Len(t, list, 101)
	require.ErrorContains(t, err, "line 101:2: too many mistakes: only the first 100 are reported")
}

// Mistakes in limits of units and in overrides are reported where they are,
// without the keys, which can be secret.
func TestMistakesInUnitsAndOverrides(t *testing.T) {
	_, err := policyfile.Load(strings.NewReader(`policies:
  - name: a
    limits:
      - tokens: ten/min
      - tokens: 100 images/min
      - tokens: 100
      - tokens: 100/month in Europe/Berlinn
      - tokens: 100/month from 2025-13-01
      - 5/min in Europe/Berlin
    overrides:
      x-api-key:k-123:
        - ten/min
        - {capacity: -1, refill_rate: 5, refill_interval: 30}
      Name: [0/min]
      bob: 5/min
      cid: []
      "": [5/min]
  - name: b
    limits: [5/min]
    overrides: {}
`))
	want := `line 4:9: policies[0].limits[0].refill_rate: "ten" must be a number such as 100, 0.5 or 1_000 (RL103)
line 5:9: policies[0].limits[1].unit: "images" is a second unit beside tokens (RL106)
line 6:9: policies[0].limits[2]: 100 needs an interval: write tokens: 100/min, or another; slots are 100 at once (RL110)
line 7:9: policies[0].limits[3].location: "Europe/Berlinn" is not a time zone such as Europe/Berlin (RL107)
line 8:9: policies[0].limits[4].anchor: "2025-13-01" must be a day such as 2025-10-31, or with a time of day, such as 2025-10-31T12:00 (RL108)
line 9:9: policies[0].limits[5].refill_interval: "min" must be whole days, weeks or months to be aligned to a calendar (RL104)
line 11:7: policies[0].overrides: has an empty key, which no request can have (RL111)
line 12:11: policies[0].overrides.x-api-key:…[0].refill_rate: "ten" must be a number such as 100, 0.5 or 1_000 (RL103)
line 13:22: policies[0].overrides.x-api-key:…[1].capacity: -1 must be from 1 to 999999999999999 tokens (RL102)
line 13:59: policies[0].overrides.x-api-key:…[1].refill_interval: 30 needs a unit, such as 30s (RL104)
line 14:14: policies[0].overrides.…[0].refill_rate: 0 must be a number above 0 (tokens every refill_interval) (RL103)
line 15:12: policies[0].overrides.…: "5/min" must be a list of limits, such as [10/s, 1000/day] (RL111)
line 16:12: policies[0].overrides.…: [] is an empty list: at least one is required (RL111)
line 20:16: policies[1].overrides: {} is an empty mapping: leave it out (RL111)`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Mistakes in slots and in what limits hold are reported where they are, with
// what to write instead.
func TestMistakesInSlots(t *testing.T) {
	_, err := policyfile.Parse([]byte(`name: a
limits:
  - 5 in flight
  - 5/at once
  - 5 at once hold 10
  - 60/min hold 1m
  - 5 at once burst 10
  - gpus: 8 at a time
  - 5 at once: hold 2m
  - 5 at once hold: 2m
  - {capacity: 5, mode: concurrent, max_hold: 30}
  - {capacity: 5, mode: concurrent, max_hold: 500ns}
  - {capacity: 5, mode: Concurrent, max_hold: 0s}
  - {capacity: 0, mode: concurrent}
  - {mode: concurrent}
  - {capacity: 5, mode: concurrent, refill_rate: 5, refill_interval: min}
  - {capacity: 5, mode: concurrent, location: UTC}
  - {refill_rate: 5, refill_interval: min, max_hold: 1m}
  - {capacity: 5, mode: concurent}
  - {capacity: 5, mode: concurrent, maxHold: 1m}
  - in_flight: 5
  - at-once: 5
`))
	const form = `: a limit is RATE [UNIT]/INTERVAL [burst N] [continuous|stepped|aligned] [in ZONE] [from DATE] [hold INTERVAL] [name NAME], such as "100/min burst 20", or N at once [hold INTERVAL] [name NAME] (RL110)`
	want := `line 3:5: limits[0]: "5 in flight" has no slash between a rate and an interval` + form + `
line 4:5: limits[1].refill_interval: "at" must be a time such as s, min, h, day, week, month, 30s, 5 min or 1h30m (RL104)
line 4:5: limits[1]: "once" is not understood` + form + `
line 5:5: limits[2].max_hold: "10" needs a unit, such as 10s (RL118)
line 6:5: limits[3].max_hold: "1m" must be left out here: it is for slots, and for limits of another unit than requests, of which a request takes an estimate (RL118)
line 7:5: limits[4]: "burst 10" is not for slots, which have no rate: only hold and name can follow at once` + form + `
line 8:5: limits[5]: "8 at a time" has no slash between a rate and an interval` + form + `
line 9:5: limits[6]: "5 at once: hold 2m" is a limit with a colon in it, so it is a mapping: write 5 at once hold 2m (RL110)
line 10:5: limits[7]: "5 at once hold: 2m" is a limit with a colon in it, so it is a mapping: write 5 at once hold 2m (RL110)
line 11:47: limits[8].max_hold: 30 needs a unit, such as 30s (RL118)
line 12:47: limits[9].max_hold: "500ns" must be from 1ms to 720h (30 days) (RL118)
line 13:47: limits[10].max_hold: "0s" must be from 1ms to 720h (30 days) (RL118)
line 14:16: limits[11].capacity: 0 must be from 1 to N slots (RL102)
line 15:5: limits[12].capacity: is required (RL102)
line 16:50: limits[13].refill_rate: 5 must be left out in the Concurrent mode: its tokens are slots, which come back when they are released (RL103)
line 16:70: limits[13].refill_interval: "min" must be left out in the Concurrent mode: its tokens are slots, which come back when they are released (RL104)
line 17:47: limits[14].location: "UTC" must be left out in the Concurrent mode: its tokens are slots, which come back when they are released (RL107)
line 18:54: limits[15].max_hold: "1m" must be left out here: it is for slots, and for limits of another unit than requests, of which a request takes an estimate (RL118)
line 19:25: limits[16].mode: "concurent" must be continuous, stepped, aligned or concurrent (RL105)
line 20:37: limits[17]: "maxHold" is not a field of a limit: the fields are name, capacity, refill_rate, refill_interval, mode, unit, location, anchor, max_hold, times (RL206)
line 21:5: limits[18]: 5 needs an interval: write in_flight: 5/min, or another; slots are 5 at once (RL110)
line 22:5: limits[19]: 5 needs an interval: write at-once: 5/min, or another; slots are 5 at once (RL110)`
	if err == nil || slotsBound.ReplaceAllString(err.Error(), "1 to N slots") != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Places of mistakes have the names of fields in files.
func TestEachFieldOfALimitHasItsNameInFiles(t *testing.T) {
	for field := range reflect.TypeFor[core.Limit]().Fields() {
		name := strings.TrimPrefix(regexp.MustCompile("[A-Z]").ReplaceAllStringFunc(field.Name, func(s string) string { return "_" + strings.ToLower(s) }), "_")
		_, err := policyfile.Parse([]byte("name: a\nlimits:\n  - {" + name + ": {}}\n"))
		require.ErrorContains(t, err, "limits[0]."+name+": a mapping")
	}
}

var slotsBound = regexp.MustCompile(`1 to \d+ slots`)

func TestSlotsInFiles(t *testing.T) {
	p, err := policyfile.Parse([]byte(`name: a
limits:
  - 5 at once hold 2m name exports
  - gpus: 8 at once
  - tokens: 100_000/min hold 10m
  - {capacity: 5, mode: concurrent, max_hold: 90s, name: mapped}
  - {capacity: 5, mode: concurrent, unit: gpus}
overrides:
  user:ann: [20 at once name exports]
`))
	require.NoError(t, err)
	require.Equal(t, core.Policy{
		Name: "a",
		Limits: []core.Limit{
			core.InFlight(5).WithMaxHold(2 * time.Minute).WithName("exports"),
			core.InFlight(8).WithUnit("gpus"),
			core.PerMinute(100_000).WithUnit("tokens").WithMaxHold(10 * time.Minute),
			core.InFlight(5).WithMaxHold(90 * time.Second).WithName("mapped"),
			core.InFlight(5).WithUnit("gpus"),
		},
		Overrides: map[string][]core.Limit{"user:ann": {core.InFlight(20).WithName("exports")}},
	}, p)
}

// A mistake below a key is reported where it is, however long the key is and
// whatever it holds.
func TestMistakesBelowOddKeys(t *testing.T) {
	for key, field := range map[string]string{
		"ann": "ann", "a.b": "a.b", "a[0]": "a[0]", "a]": "a]", "Limits[1].Name": "Limits[1].Name", `"\e[31m\n"`: `\x1b[31m\n`,
	} {
		_, err := policyfile.Parse([]byte("name: a\nlimits: [1/s]\noverrides:\n  a: [1/s]\n  " + key + ":\n    - 1/s\n    - {refill_rate: -1, refill_interval: s}\n"))
		require.EqualError(t, err, "line 7:21: overrides.…[1].refill_rate: -1 must be a number above 0 (tokens every refill_interval) (RL103)", key)
		require.Equal(t, "overrides."+field+"[1].refill_rate", fieldOf(t, err), "programs get the key")
	}
}

// Core shortens a key of more than 128 bytes in some messages.
func TestMistakesBelowLongKeys(t *testing.T) {
	long := strings.Repeat("k", 200)
	for limits, want := range map[string]string{
		"[1/s, ten/s]": `line 3:221: overrides.…[1].refill_rate: "ten" must be a number such as 100, 0.5 or 1_000 (RL103)`,
		"[1/s, 0/s]":   "line 3:221: overrides.…[1].refill_rate: 0 must be a number above 0 (tokens every refill_interval) (RL103)",
		"5":            "line 3:215: overrides.…: 5 must be a list of limits, such as [10/s, 1000/day] (RL111)",
	} {
		_, err := policyfile.Parse([]byte("name: a\nlimits: [1/s]\noverrides: {" + long + ": " + limits + "}\n"))
		require.EqualError(t, err, want)
		require.Contains(t, fieldOf(t, err), "overrides."+long)
	}
}

// fieldOf returns the Field of the first mistake in err.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var mistake *policyfile.Error
	require.ErrorAs(t, err, &mistake)
	return mistake.Field
}

// Errors are logged. Keys of overrides can be API keys and personal data, and a
// wrong path can lead to a file of secrets.
func TestMistakesShowNoSecret(t *testing.T) {
	const policy = "- name: api\n  limits: [1/s]\n"
	for _, text := range []string{
		policy + "  overrides:\n    x-api-key:SECRET: [five/s]\n",
		policy + "  overrides:\n    x-api-key:SECRET: []\n",
		policy + "  overrides:\n    SECRET|ip:192.0.2.1: []\n",
		policy + "  overrides:\n    \"%=SECRET%7Ca|ip:192.0.2.1\": 5\n",
		policy + "SECRET|ip:192.0.2.1: [1/s]\n",
		policy + "  overrides:\n    x-api-key:SECRET: {}\n",
		policy + "  overrides:\n    x-api-key:SECRET: 5\n",
		policy + "  overrides:\n    \"x-api-key:SECRET[0]\": [0/s]\n",
		policy + "  overrides:\n    SECRET.capacity: [{capacity: -1, refill_rate: 1, refill_interval: s}]\n",
		policy + "  overrides:\n    user:SECRET: [1/s]\n    user:SECRET: [2/s]\n",
		policy + "  overrides:\n    user:SECRET: [1/s name x, 2/s name x]\n",
		policy + "  overrides:\n    user:SECRET: [{limit: 5}]\n",
		policy + "  overrides:\n    x-api-key:SECRET [1/s]\n",
		policy + "  overrides: x-api-key:SECRET\n",
		policy + "  overrides: {x-api-key:SECRET}\n",
		policy + "  overrides: {\"x-api-key:SECRET\": 5}\n",
		policy + "  overrides: {\"x-api-key:SECRET\n",
		policy + "  overrides:\n  x-api-key:SECRET: [1/s]\n",
		policy + "x-api-key:SECRET: [1/s]\n",
		"policies: []\nx-api-key:SECRET: [1/s]\n",
		"SECRET\n", "root:SECRET:19000:0:99999:7:::\n", "database:\n  password: SECRET\n",
		"-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n",
		`{"password": "SECRET"}`, `{"password": "SECRET`, `{"password": SECRET`,
	} {
		_, err := policyfile.Load(strings.NewReader(text))
		require.ErrorContains(t, err, "line ", "%q", text)
		require.NotContains(t, err.Error(), "SECRET", "%q", text)
	}
}

// What can't be printed is escaped, wherever it stands in a file.
func TestControlBytesNeverReachAMessage(t *testing.T) {
	for _, text := range []string{
		"name: \x1b[31m\nlimits: [1/s]", "\x1b[31m: a", "name: a\nlimits: [\x1b[31m/s]", "name: *\x1b[31m\nlimits: [1/s]", "name: !\x1b a\nlimits: [1/s]",
		"name: a\nlimits: [{\x1b: 5}]", "name: a\nlimits: [{\x1b/s: 5}]", "name: a\nlimits: [1/s]\nshadow: \x1b", "name: a\nlimits: [1/s]\nheaders: [\u202e]",
		"name: a\nlimits: [1/s]\noverrides: {\"\\e\\n\": [1]}", "name: a\nlimits: [1/s]\n\x07: 1\n\x07: 2", "? \x07", "{\x07", "\x07\tb: c", "- \x07\n- \x07", "name: a\n\tlimits: 5",
		"&\x1b a: *\x07", "name: a\nlimits: [1/s]\n<<: \x1b", "name: a\nlimits: [1/s in \x1b]", "name: a\nlimits: [1/s name \"\\e\"]", "name: a\nlimits: [1 \x1b/s]",
	} {
		for _, read := range []func() error{
			func() error { _, err := policyfile.Parse([]byte(text)); return err },
			func() error { _, err := policyfile.Load(strings.NewReader(text)); return err },
		} {
			err := read()
			require.Error(t, err, "%q", text)
			require.Negative(t, strings.IndexFunc(err.Error(), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }), "%q: %q", text, err)
			for _, each := range err.(interface{ Unwrap() []error }).Unwrap() {
				e := each.(*policyfile.Error)
				require.Negative(t, strings.IndexFunc(e.Field+e.Value+e.Reason, func(r rune) bool { return !strconv.IsPrint(r) }), "%q: %+q", text, e)
			}
		}
	}
}
