package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// blocks returns the fenced blocks of a language on policies.md.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	page, err := os.ReadFile("policies.md")
	require.NoError(t, err)
	var found []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		found = append(found, block[1])
	}
	return found
}

func TestPoliciesOnThePageLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(path, []byte(blocks(t, "yaml")[0]), 0o600))
	policies, err := policyfile.LoadFile(path)
	require.NoError(t, err)
	require.Len(t, policies, 5)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	calls, tokens := core.PerMinute(60).WithName("calls"), core.PerMinute(100_000).WithUnit("tokens")
	budget := core.PerMonth(5_000_000).WithUnit("tokens").WithName("budget").In(berlin).Anchored(time.Date(2025, time.October, 31, 0, 0, 0, 0, berlin))
	moreCalls, moreTokens, more := calls, tokens, budget
	moreCalls.Capacity, moreCalls.RefillRate = 600, 600
	moreTokens.Capacity, moreTokens.RefillRate = 1_000_000, 1_000_000
	more.Capacity, more.RefillRate = 50_000_000, 50_000_000
	strict := []core.Limit{core.Must(core.ParseLimit(`5/15m stepped name "per quarter"`)), core.PerDay(20)}
	require.Equal(t, map[string]core.Policy{
		"search": {Name: "search", OnFailure: core.FailOpen, LocalShare: 0.25, Headers: core.HeadersLegacy | core.HeadersDraft8,
			Limits:  []core.Limit{core.PerSecond(10).WithBurst(30), core.PerDay(10_000).WithName("daily").WithMode(core.Aligned)},
			Plans:   map[string][]core.Limit{"pro": {core.PerSecond(100).WithBurst(300), core.PerDay(100_000).WithName("daily").WithMode(core.Aligned)}},
			Blocked: []string{"ip:192.0.2.1"}},
		"login":          {Name: "login", Limits: strict, OnFailure: core.FailClosed},
		"exports":        {Name: "exports", Limits: []core.Limit{core.InFlight(5).WithMaxHold(2 * time.Minute)}},
		"password-reset": {Name: "password-reset", Limits: strict, Headers: core.HeadersNone},
		"llm": {Name: "llm", Limits: []core.Limit{calls, tokens, budget},
			Overrides: map[string][]core.Limit{core.JoinKey("header", "x-api-key", "k-123"): {moreCalls, moreTokens, more}, core.JoinKey("header", "x-api-key", "k-124"): {core.Limit{Times: 10}}}},
	}, policies)
	for _, policy := range policies {
		_, err := core.NewLimiter(core.NewMemoryStore(), policy)
		require.NoError(t, err)
	}
}

func TestPolicyOnThePageParses(t *testing.T) {
	policy, err := policyfile.Parse([]byte(blocks(t, "json")[0]))
	require.NoError(t, err)
	require.Equal(t, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100).WithBurst(20), core.PerDay(5000).WithMode(core.Aligned)}}, policy)
}

// The limits that the table of the string form shows are limits, and
// Limit.String writes each so that it is read again.
func TestLimitsOnThePageParse(t *testing.T) {
	page, err := os.ReadFile("policies.md")
	require.NoError(t, err)
	found := regexp.MustCompile("`([0-9][0-9_.]*(?: [a-z]+)?/[^`]+)`").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(found), 6)
	for _, text := range found {
		limit, err := core.ParseLimit(text[1])
		require.NoError(t, err)
		again, err := core.ParseLimit(limit.String())
		require.NoError(t, err)
		require.Equal(t, limit.String(), again.String())
	}
}

func TestMistakesAreToldAsOnThePage(t *testing.T) {
	wrong, want := blocks(t, "yaml")[1], blocks(t, "text")[0]
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("policies.yaml", []byte(wrong), 0o600))
	_, err := policyfile.LoadFile("policies.yaml")
	require.EqualError(t, err, strings.TrimSpace(want))
}
