package policyfile_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
)

const searchYAML = `policies:
  - name: search
    limits:
      - 10/s burst 30
      - 10_000/day aligned name daily
    plans: {pro: [100/s name search-1s]}
    overrides:
      user:ann: [5/day name daily]
    blocked: ["ip:192.0.2.1"]
    on_failure: open
    local_share: 0.25
    headers: legacy, draft8
    shadow: true
`

var search = core.Policy{
	Name:       "search",
	Limits:     []core.Limit{core.PerSecond(10).WithBurst(30), core.PerDay(10_000).WithName("daily").WithMode(core.Aligned)},
	Plans:      map[string][]core.Limit{"pro": {core.PerSecond(100).WithName("search-1s")}},
	Overrides:  map[string][]core.Limit{"user:ann": {core.PerDay(5).WithName("daily")}},
	Blocked:    []string{"ip:192.0.2.1"},
	OnFailure:  core.FailOpen,
	LocalShare: 0.25,
	Headers:    core.HeadersLegacy | core.HeadersDraft8,
	Shadow:     true,
}

func read(t *testing.T, text string) map[string]core.Policy {
	t.Helper()
	policies, err := policyfile.Load(strings.NewReader(text))
	require.NoError(t, err, text)
	return policies
}

func TestEveryFieldIsReadHoweverTheFileIsWritten(t *testing.T) {
	asJSON, err := json.Marshal(map[string]any{"policies": []core.Policy{search}})
	require.NoError(t, err)
	indented, err := json.MarshalIndent([]core.Policy{search}, "", "\t")
	require.NoError(t, err)
	for rule, text := range map[string]string{
		"YAML":                       searchYAML,
		"a list alone":               strings.ReplaceAll(strings.TrimPrefix(searchYAML, "policies:"), "\n  ", "\n"),
		"JSON":                       string(asJSON),
		"JSON indented with tabs":    string(indented),
		"JSON with escapes":          strings.ReplaceAll(strings.ReplaceAll(string(asJSON), "/", `\/`), `"name"`, `"n\u0061me"`),
		"a byte order mark":          "\ufeff" + searchYAML,
		"CRLF":                       strings.ReplaceAll(searchYAML, "\n", "\r\n"),
		"a directive of YAML 1.2":    "# what it is\n%YAML 1.2\n---\n" + searchYAML,
		"a document's begin and end": "---\n" + searchYAML + "...\n",
		"comments":                   "# one\n" + strings.ReplaceAll(searchYAML, "\n", " # two\n"),
	} {
		assert.Equal(t, map[string]core.Policy{"search": search}, read(t, text), rule)
	}
}

func TestFieldsThatAreLeftOutHaveTheirDefaults(t *testing.T) {
	plain := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}
	assert.Equal(t, plain, read(t, "[{name: api, limits: [60/min]}]")["api"])
	for text, want := range map[string]core.HeaderStyle{
		"default": core.HeadersDefault, "none": core.HeadersNone, "draft8": core.HeadersDraft8, "'draft6,legacy'": core.HeadersDraft6 | core.HeadersLegacy,
	} {
		assert.Equal(t, want, read(t, "[{name: api, limits: [60/min], headers: "+text+"}]")["api"].Headers, text)
	}
	for text, want := range map[string]core.FailureMode{"local": core.FailLocal, "open": core.FailOpen, "closed": core.FailClosed} {
		assert.Equal(t, want, read(t, "[{name: api, limits: [60/min], on_failure: "+text+"}]")["api"].OnFailure, text)
	}
}

// What encoding/json writes of any policy is a file.
func TestEveryPolicyInJSONIsAFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := core.Policy{Name: rapid.StringMatching(`[ -~]{1,20}`).Draw(t, "name"), Shadow: rapid.Bool().Draw(t, "shadow")}
		for i := range rapid.IntRange(1, 3).Draw(t, "limits") {
			name := rapid.StringMatching(`[ -~]{1,20}`).Draw(t, "name of a limit") + string(rune('a'+i)) // no two alike
			p.Limits = append(p.Limits, limitdraw.Limit.Draw(t, "limit").WithName(name))
		}
		key := rapid.String().Filter(func(s string) bool { return s != "" }).Draw(t, "key")
		p.Overrides = map[string][]core.Limit{key: p.Limits[:1]}
		text, err := json.Marshal([]core.Policy{p})
		require.NoError(t, err)
		policies, err := policyfile.Load(strings.NewReader(string(text)))
		require.NoError(t, err, "%s", text)
		require.Equal(t, map[string]core.Policy{p.Name: p}, policies, "%s", text)
	})
}

func TestReadersThatFailAreReported(t *testing.T) {
	broken := errors.New("broken")
	_, err := policyfile.Load(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "RL201")
	_, err = policyfile.LoadFile(filepath.Join(t.TempDir(), "lost"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	policies, err := policyfile.Load(iotest.OneByteReader(strings.NewReader(searchYAML)))
	require.NoError(t, err)
	require.Len(t, policies, 1)
}
