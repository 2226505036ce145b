package core_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

const searchYAML = `name: search
limits:
  - 10/s burst 30
  - name: daily
    capacity: 10_000
    refill_rate: 10_000
    refill_interval: day
    mode: aligned
on_failure: open
local_share: 0.25
headers: [legacy, ietf]
shadow: true
`

var search = core.Policy{
	Name:       "search",
	Limits:     []core.Limit{core.PerSecond(10).WithBurst(30), core.PerDay(10_000).WithName("daily").WithMode(core.Aligned)},
	OnFailure:  core.FailOpen,
	LocalShare: 0.25,
	Headers:    core.HeadersLegacy | core.HeadersIETF,
	Shadow:     true,
}

func TestParsePolicyReadsEveryField(t *testing.T) {
	asJSON := `{"name": "search", "limits": ["10\/s burst 30", {"name": "daily", "capacity": 10000, "refill_rate": 1e4,
		"refill_interval": "24h0m0s", "mode": "Aligned"}], "on_failure": "open", "local_share": 0.25, "headers": ["legacy", "ietf"], "shadow": true}`
	for rule, text := range map[string]string{
		"YAML":                        searchYAML,
		"JSON":                        asJSON,
		"JSON indented with tabs":     strings.ReplaceAll(asJSON, ", ", ",\n\t\t"),
		"a byte order mark":           "\ufeff" + searchYAML,
		"CRLF":                        strings.ReplaceAll(searchYAML, "\n", "\r\n"),
		"a document's begin and end":  "---\n" + searchYAML + "...\n",
		"comments":                    "# one\n" + strings.ReplaceAll(searchYAML, "\n", " # two\n"),
		"a capacity that is the rate": strings.Replace(searchYAML, "    capacity: 10_000\n", "", 1),
		"an anchor":                   strings.Replace(strings.Replace(searchYAML, "capacity: 10_000", "capacity: &n 10_000", 1), "rate: 10_000", "rate: *n", 1),
	} {
		got, err := core.ParsePolicy([]byte(text))
		require.NoError(t, err, rule)
		require.Equal(t, search, got, rule)
	}
}

func TestParsePolicyLeavesDefaults(t *testing.T) {
	got, err := core.ParsePolicy([]byte("{name: api, limits: [60/min]}"))
	require.NoError(t, err)
	require.Equal(t, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}, got)
	for text, want := range map[string]core.HeaderStyle{"default": core.HeadersDefault, "none": core.HeadersNone, "IETF": core.HeadersIETF,
		"[draft6, legacy]": core.HeadersDraft6 | core.HeadersLegacy, "[ietf]": core.HeadersIETF} {
		got, err := core.ParsePolicy([]byte("{name: api, limits: [60/min], headers: " + text + "}"))
		require.NoError(t, err, text)
		require.Equal(t, want, got.Headers, text)
	}
	for text, want := range map[string]core.FailureMode{"local": core.FailLocal, "open": core.FailOpen, "closed": core.FailClosed} {
		got, err := core.ParsePolicy([]byte("{name: api, limits: [60/min], on_failure: " + text + "}"))
		require.NoError(t, err, text)
		require.Equal(t, want, got.OnFailure, text)
	}
}

// Every limit can stand in a file as String and as MarshalText write it.
func TestLoadPolicies(t *testing.T) {
	const list = "- name: api\n  limits: &both [10/s, 100/min burst 20]\n  on_failure: closed\n- name: batch\n  limits: *both\n"
	want := map[string]core.Policy{
		"api":   {Name: "api", Limits: []core.Limit{core.PerSecond(10), core.PerMinute(100).WithBurst(20)}, OnFailure: core.FailClosed},
		"batch": {Name: "batch", Limits: []core.Limit{core.PerSecond(10), core.PerMinute(100).WithBurst(20)}},
	}
	for _, text := range []string{list, "policies:\n" + list, "policies:\n  " + strings.ReplaceAll(strings.TrimSpace(list), "\n", "\n  ")} {
		got, err := core.LoadPolicies(iotest.OneByteReader(strings.NewReader(text)))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	merged, err := core.LoadPolicies(strings.NewReader("- &api {name: api, limits: [1/s], on_failure: closed}\n- {<<: *api, name: batch}\n- {name: jobs, <<: [{on_failure: open}, *api]}\n"))
	require.NoError(t, err)
	require.Equal(t, core.FailClosed, merged["batch"].OnFailure, "a merge key brings what is not given")
	require.Equal(t, core.FailOpen, merged["jobs"].OnFailure, "of several the first counts")
	_, err = core.NewLimiter(core.NewMemoryStore(), merged["nobody"])
	require.Error(t, err, "a name that is not in the file makes no limiter")
}

func TestLoadPoliciesFileTellsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(path, []byte("policies:\n  - name: api\n    limits:\n      - 10/s\n      - capacity: -1\n        refill_rate: 1\n        refill_interval: s\n"), 0o600))
	_, err := core.LoadPoliciesFile(path)
	require.EqualError(t, err, path+":5:19: policies[0].limits[1].capacity: -1 must be from 1 to 999999999999999 tokens")
	var e *core.PolicyFileError
	require.ErrorAs(t, err, &e)
	require.Equal(t, core.PolicyFileError{File: path, Line: 5, Column: 19, Field: "policies[0].limits[1].capacity", Value: "-1",
		Reason: "must be from 1 to 999999999999999 tokens"}, *e)
	_, err = core.LoadPoliciesFile(path + ".lost")
	require.ErrorIs(t, err, fs.ErrNotExist)
	broken := errors.New("broken")
	_, err = core.LoadPolicies(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

// places lists the mistakes in err as "line:column field value", in their order.
func places(t *testing.T, err error) []string {
	t.Helper()
	var list []string
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "all mistakes are joined: %v", err)
	for _, each := range joined.Unwrap() {
		var e *core.PolicyFileError
		require.ErrorAs(t, each, &e)
		require.NotEmpty(t, e.Reason)
		require.Positive(t, e.Line)
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d:%d %s %s", e.Line, e.Column, e.Field, e.Value)))
	}
	return list
}

func TestParsePolicyTellsEveryMistakeAndItsPlace(t *testing.T) {
	_, err := core.ParsePolicy([]byte(`name: naïve
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
headers: [legacy, ietf, draft6, none]
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
		"19:25 headers[2] \"draft6\"",
		"19:33 headers[3] \"none\"",
		"20:9 shadow \"yes\"",
	}, places(t, err))
	require.ErrorContains(t, err, `line 13:5: limits[3]: "refill-rate" is not a field of a limit: write refill_rate`)
	require.ErrorContains(t, err, `line 14:5: limits[4].name: "daily" is the name of limits[1] already`)
	require.ErrorContains(t, err, "line 8:22: limits[1].refill_interval: 30 needs a unit, such as 30s")
}

func TestWrongDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "line 1: the file is empty",
		"# nothing\n":                  "line 1: the file is empty",
		"---\n":                        "line 1: the file is empty",
		"null":                         "line 1: the file is empty",
		"[]":                           `line 1:1: a list must be a policy, a mapping with the fields name, limits, on_failure, local_share, headers, shadow`,
		"api":                          `line 1:1: "api" must be a policy`,
		"{}":                           "line 1:1: name: is required\nline 1:1: limits: is required",
		"{name: api, limits: []}":      "line 1:21: limits: is an empty list: at least one is required",
		"{name: api, limits: 1/s}":     `line 1:21: limits: "1/s" must be a list of limits`,
		"{name: api, limits: [~]}":     "line 1:22: limits[0]: nothing must be a string such as 100/min burst 20, or a mapping",
		"{name: api, limits: [[1/s]]}": "line 1:22: limits[0]: a list must be",
		"{name: 12, limits: [1/s]}":    "line 1:8: name: 12 must be a string: put it in quotes",
		"name:\nlimits: [1/s]":         "line 1:6: name: nothing must be a string",
		"{name: '', limits: [1/s]}":    `line 1:8: name: "" is required`,
		"{name: api, limits: [1/s], headers: []}":                                          "line 1:37: headers: is an empty list",
		"{name: api, limits: [1/s], headers: 7}":                                           "line 1:37: headers: 7 must be default, none, legacy, ietf or draft6",
		"{name: api, limits: [1/s], headers: [7]}":                                         "line 1:38: headers[0]: 7 must be",
		"{name: api, limits: [1/s], local_share: 0}":                                       "line 1:41: local_share: 0 must be above 0",
		"{name: api, limits: [1/s], local_share: .nan}":                                    "line 1:41: local_share: .nan must be a number such as",
		"{name: api, limits: [0.5/s]}":                                                     "line 1:22: limits[0].capacity: is required where the rate is not whole",
		"{name: api, limits: [{refill_rate: 010, refill_interval: s}]}":                    "line 1:36: limits[0].refill_rate: 010 must be a number",
		"{name: api, limits: [{refill_rate: 0.5, refill_interval: s}]}":                    "line 1:22: limits[0].capacity: is required",
		"{name: api, limits: [{refill_rate: 1, refill_interval: s, name: ''}]}":            `line 1:65: limits[0].name: "" must not be empty`,
		"{name: api, limits: [{refill_rate: 1e16, refill_interval: s}]}":                   "line 1:22: limits[0].capacity: 1000000000000000 must be from 1",
		"{name: api, limits: [{refill_rate: 1, refill_interval: 300000h, capacity: 5e6}]}": "refill_rate: 1 is too slow",
		"{name: api, limits: [1/s], ? [a] : b}":                                            "a list is not a field of a policy",
		"{name: api, limits: [1/s], <<: 5}":                                                "line 1:32: <<: 5 must be a mapping, or a list of mappings",
		"name: api\nlimits: [1/s]\n---\nname: b\n":                                         "line 3:1: a second document begins: put all into one",
		"name: api\nlimits: [1/s\n":                                                        "line 2: is not YAML: did not find expected ',' or ']'",
		"name: api\nlimits:\n\t- 1/s\n":                                                    "line 3:1: is not YAML: a tab can't indent YAML: use spaces",
		"name: api\nlimits:\n  - *lost\n":                                                  "line 3:5: is not YAML: unknown anchor 'lost' referenced",
		"name: api: b\n":                                                                   "line 1: is not YAML: mapping values are not allowed in this context",
		"name: a\xff\n":                                                                    "line 1: is not YAML: invalid",
		"- name: api\nlimits: 5\n":                                                         "line 2: is not YAML: did not find expected '-' indicator",
		"&a {name: api, <<: *a, limits: [1/s]}":                                            "is merged too deep",
		"{name: api, limits: &a [*a]}":                                                     "limits[0]: a list must be a string",
	} {
		_, err := core.ParsePolicy([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
		places(t, err)
	}
	for text, want := range map[string]string{
		"[]":                         "line 1:1: is an empty list: at least one is required",
		"policies: []":               "line 1:11: policies: is an empty list",
		"policies:":                  "line 1:10: policies: nothing must be a list of policies",
		"{}":                         "line 1:1: policies: is required: a list of policies",
		"name: api\nlimits: [1/s]\n": `line 1:1: "name" is not a field of a file of policies: the fields are policies`,
		"5":                          "line 1:1: 5 must be a file of policies",
		"- {name: a, limits: [1/s]}\n- {name: b, limits: [1/s]}\n- {name: a, limits: [1/s]}\n": `line 3:10: [2].name: "a" is the name of [0] (line 1) already`,
		"policies:\n- name: a\n- limits: [0/s]\n":                                              "line 2:3: policies[0].limits: is required\nline 3:3: policies[1].name: is required\nline 3:12: policies[1].limits[0].refill_rate: 0 must be a number above 0 (tokens every refill_interval)",
	} {
		policies, err := core.LoadPolicies(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
		require.Nil(t, policies, "all or nothing")
	}
}

// What a file may cost is bounded, whatever is in it.
func TestHostileFiles(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("- &p {name: a, limits: &l [")
	for range 1000 {
		bomb.WriteString("1/s, ")
	}
	bomb.WriteString("]}\n")
	for range 100_000 {
		bomb.WriteString("- *p\n")
	}
	lol := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		prev := "*" + string(c-1)
		lol += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Join([]string{prev, prev, prev, prev, prev, prev, prev, prev, prev}, ","))
	}
	for rule, text := range map[string]string{
		"a list of one policy over and over": bomb.String(),
		"a billion laughs":                   lol + "policies: *j\n",
		"merges of merges":                   "- &a {name: a, <<: &b [" + strings.Repeat("*a, ", 30) + "]}\n",
		"deep nesting":                       strings.Repeat("[", 1<<20),
		"only mistakes":                      strings.Repeat("- \n", 300_000),
		"one byte too much":                  strings.Repeat(" ", 1<<20) + "a",
	} {
		start := time.Now()
		_, err := core.LoadPolicies(strings.NewReader(text))
		require.Error(t, err, rule)
		require.LessOrEqual(t, len(places(t, err)), 101, rule)
		require.Less(t, len(err.Error()), 64<<10, rule)
		t.Logf("%s: %v, %.100q", rule, time.Since(start), err)
	}
	read := &countingReader{}
	_, err := core.LoadPolicies(read)
	require.ErrorContains(t, err, "the file is too large")
	require.LessOrEqual(t, read.n, 2<<20, "an endless reader is left")
}

type countingReader struct{ n int }

func (r *countingReader) Read(p []byte) (int, error) {
	r.n += len(p)
	return copy(p, bytes.Repeat([]byte(" "), len(p))), nil
}

var _ io.Reader = (*countingReader)(nil)

func FuzzParsePolicy(f *testing.F) {
	for _, seed := range []string{searchYAML, `{"name":"api","limits":["1\/s"]}`, "&a {name: api, <<: *a}", "- *x", "\t", "a: b: c", "\ufeffname: x", "{name: a, limits: [{}]}", "? []", "!!binary x: y", "name: !foo bar"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := core.ParsePolicy(data); err == nil {
			if _, err := core.NewLimiter(core.NewMemoryStore(), p); err != nil {
				t.Fatalf("what is read is accepted: %v", err)
			}
		} else {
			places(t, err)
		}
		if _, err := core.LoadPolicies(bytes.NewReader(data)); err != nil {
			places(t, err)
		}
	})
}
