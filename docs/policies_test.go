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

// blocks returns the fenced blocks of a language on limits.md.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	page, err := os.ReadFile("limits.md")
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
	berlin := core.Must(core.ParseLimit("1/day in Europe/Berlin")).Location
	calls, tokens := core.PerMinute(60).WithName("calls"), core.PerMinute(100_000).WithUnit("tokens")
	budget := func(n int) core.Limit {
		return core.PerMonth(n).WithUnit("tokens").WithName("budget").In(berlin).Anchored(time.Date(2025, time.October, 31, 0, 0, 0, 0, berlin))
	}
	require.Equal(t, map[string]core.Policy{
		"search": {Name: "search", OnFailure: core.FailOpen, LocalShare: 0.25, Headers: core.HeadersLegacy | core.HeadersDraft8,
			Limits:  []core.Limit{core.PerSecond(10).WithBurst(30), core.PerDay(10_000).WithName("daily").WithMode(core.Aligned)},
			Plans:   map[string][]core.Limit{"pro": {core.PerSecond(100).WithBurst(300), core.PerDay(100_000).WithName("daily").WithMode(core.Aligned)}},
			Blocked: []string{"ip:192.0.2.1"}},
		"login": {Name: "login", OnFailure: core.FailClosed,
			Limits: []core.Limit{core.Per(5, 15*time.Minute).WithMode(core.Stepped).WithName("per quarter"), core.PerDay(20)}},
		"exports": {Name: "exports", Limits: []core.Limit{core.InFlight(5).WithMaxHold(2 * time.Minute)}},
		"llm": {Name: "llm", Limits: []core.Limit{calls, tokens, budget(5_000_000)},
			Overrides: map[string][]core.Limit{"x-api-key:k-123": {core.PerMinute(600).WithName("calls"), budget(50_000_000)}}},
	}, policies)
	for _, policy := range policies {
		_, err := core.NewLimiter(core.NewMemoryStore(), policy)
		require.NoError(t, err)
	}
}

// The limits that the table of the string form shows are limits, and
// Limit.String writes each so that it is read again.
func TestLimitsOnThePageParse(t *testing.T) {
	page, err := os.ReadFile("limits.md")
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
	want := blocks(t, "text")[2]
	t.Chdir(t.TempDir())
	wrong := "policies:\n  - name: search\n    limits:\n      - ten/min\n"
	require.NoError(t, os.WriteFile("policies.yaml", []byte(wrong), 0o600))
	_, err := policyfile.LoadFile("policies.yaml")
	require.EqualError(t, err, strings.TrimSpace(want))
}
