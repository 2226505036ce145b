package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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
	require.Len(t, policies, 3)
	strict := []core.Limit{core.Must(core.ParseLimit(`5/15m stepped name "per quarter"`)), core.PerDay(20)}
	require.Equal(t, map[string]core.Policy{
		"search": {Name: "search", OnFailure: core.FailOpen, LocalShare: 0.25, Headers: core.HeadersLegacy | core.HeadersIETF, Shadow: true,
			Limits: []core.Limit{core.PerSecond(10).WithBurst(30), core.PerDay(10_000).WithName("daily").WithMode(core.Aligned)}},
		"login":          {Name: "login", Limits: strict, OnFailure: core.FailClosed},
		"password-reset": {Name: "password-reset", Limits: strict, Headers: core.HeadersNone},
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

func TestMistakesAreToldAsOnThePage(t *testing.T) {
	wrong, want := blocks(t, "yaml")[1], blocks(t, "text")[0]
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("policies.yaml", []byte(wrong), 0o600))
	_, err := policyfile.LoadFile("policies.yaml")
	require.EqualError(t, err, strings.TrimSpace(want))
}
