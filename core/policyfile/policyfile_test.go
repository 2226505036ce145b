package policyfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
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
headers: [legacy, draft8]
shadow: true
`

var search = core.Policy{
	Name:       "search",
	Limits:     []core.Limit{core.PerSecond(10).WithBurst(30), core.PerDay(10_000).WithName("daily").WithMode(core.Aligned)},
	OnFailure:  core.FailOpen,
	LocalShare: 0.25,
	Headers:    core.HeadersLegacy | core.HeadersDraft8,
	Shadow:     true,
}

func TestParseReadsEveryField(t *testing.T) {
	asJSON := `{"name": "search", "limits": ["10\/s burst 30", {"name": "daily", "capacity": 10000, "refill_rate": 1e4,
		"refill_interval": "24h0m0s", "mode": "Aligned"}], "on_failure": "open", "local_share": 0.25, "headers": ["legacy", "draft8"], "shadow": true}`
	for rule, text := range map[string]string{
		"YAML":                        searchYAML,
		"JSON":                        asJSON,
		"JSON indented with tabs":     strings.ReplaceAll(asJSON, ", ", ",\n\t\t"),
		"a byte order mark":           "\ufeff" + searchYAML,
		"CRLF":                        strings.ReplaceAll(searchYAML, "\n", "\r\n"),
		"a directive of YAML 1.2":     "# what it is\n%YAML 1.2\n---\n" + searchYAML,
		"a document's begin and end":  "---\n" + searchYAML + "...\n",
		"comments":                    "# one\n" + strings.ReplaceAll(searchYAML, "\n", " # two\n"),
		"a capacity that is the rate": strings.Replace(searchYAML, "    capacity: 10_000\n", "", 1),
		"anchors of names":            strings.Replace(searchYAML, "on_failure:", "&f on_failure:", 1),
		"an anchor":                   strings.Replace(strings.Replace(searchYAML, "capacity: 10_000", "capacity: &n 10_000", 1), "rate: 10_000", "rate: *n", 1),
	} {
		got, err := policyfile.Parse([]byte(text))
		require.NoError(t, err, rule)
		require.Equal(t, search, got, rule)
	}
}

func TestParseLeavesDefaults(t *testing.T) {
	got, err := policyfile.Parse([]byte("{name: api, limits: [60/min]}"))
	require.NoError(t, err)
	require.Equal(t, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}, got)
	for text, want := range map[string]core.HeaderStyle{"default": core.HeadersDefault, "none": core.HeadersNone, "Draft8": core.HeadersDraft8,
		"[draft6, legacy]": core.HeadersDraft6 | core.HeadersLegacy, "[draft8]": core.HeadersDraft8} {
		got, err := policyfile.Parse([]byte("{name: api, limits: [60/min], headers: " + text + "}"))
		require.NoError(t, err, text)
		require.Equal(t, want, got.Headers, text)
	}
	for text, want := range map[string]core.FailureMode{"local": core.FailLocal, "open": core.FailOpen, "closed": core.FailClosed} {
		got, err := policyfile.Parse([]byte("{name: api, limits: [60/min], on_failure: " + text + "}"))
		require.NoError(t, err, text)
		require.Equal(t, want, got.OnFailure, text)
	}
}

// Every limit can stand in a file as String and as MarshalText write it.
func TestLoad(t *testing.T) {
	const list = "- name: api\n  limits: &both [10/s, 100/min burst 20]\n  on_failure: closed\n- name: batch\n  limits: *both\n"
	want := map[string]core.Policy{
		"api":   {Name: "api", Limits: []core.Limit{core.PerSecond(10), core.PerMinute(100).WithBurst(20)}, OnFailure: core.FailClosed},
		"batch": {Name: "batch", Limits: []core.Limit{core.PerSecond(10), core.PerMinute(100).WithBurst(20)}},
	}
	for _, text := range []string{list, "policies:\n" + list, "policies:\n  " + strings.ReplaceAll(strings.TrimSpace(list), "\n", "\n  ")} {
		got, err := policyfile.Load(iotest.OneByteReader(strings.NewReader(text)))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	merged, err := policyfile.Load(strings.NewReader("- &api {name: api, limits: [1/s], on_failure: closed}\n- {<<: *api, name: batch}\n- {name: jobs, <<: [{on_failure: open}, *api]}\n"))
	require.NoError(t, err)
	require.Equal(t, core.FailClosed, merged["batch"].OnFailure, "a merge key brings what is not given")
	require.Equal(t, core.FailOpen, merged["jobs"].OnFailure, "of several the first counts")
	_, err = core.NewLimiter(core.NewMemoryStore(), merged["nobody"])
	require.Error(t, err, "a name that is not in the file makes no limiter")
}

func TestLoadFileTellsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(path, []byte("policies:\n  - name: api\n    limits:\n      - 10/s\n      - capacity: -1\n        refill_rate: 1\n        refill_interval: s\n"), 0o600))
	_, err := policyfile.LoadFile(path)
	require.EqualError(t, err, path+":5:19: policies[0].limits[1].capacity: -1 must be from 1 to 999999999999999 tokens (RL102)")
	var e *policyfile.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, policyfile.Error{File: path, Line: 5, Column: 19, Field: "policies[0].limits[1].capacity", Value: "-1",
		Reason: "must be from 1 to 999999999999999 tokens"}, *e)
	_, err = policyfile.LoadFile(path + ".lost")
	require.ErrorIs(t, err, fs.ErrNotExist)
	broken := errors.New("broken")
	_, err = policyfile.Load(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

// Lines end with \n or \r\n, with comments and multi-line texts too.
func TestLineEndsDoNotChangePlacesOrValues(t *testing.T) {
	for text, place := range map[string]string{
		"- name: a # c\n  limits: [1/x]\n":                                  "line 2:12",
		"# c\n# d\n# e\n- name: a\n  limits: [1/x]\n":                       "line 5:12",
		"- name: a\n  limits:\n    - '10/s\n      burst 30'\n  shadow: 5\n": "line 5:11",
		"- name: a\n  limits: [1/s]\n  '': 6\n":                             "line 3:3: [0]: \"\" is not a field",
	} {
		for _, end := range []string{"\n", "\r\n"} {
			_, err := policyfile.Load(strings.NewReader(strings.ReplaceAll(text, "\n", end)))
			require.ErrorContains(t, err, place, "%q", text)
		}
	}
	policies, err := policyfile.Load(strings.NewReader("- name: \"a\r\n    b\"\r\n  limits: [1/s]\r\n"))
	require.NoError(t, err)
	assert.Contains(t, policies, "a b")
}
