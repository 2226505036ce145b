package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/inspect"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// nextPolicies refill nothing while a test runs.
const nextPolicies = `- name: api
  limits:
    - {name: burst, capacity: 3, refill_rate: 1, refill_interval: 24h}
    - {name: daily, capacity: 8, refill_rate: 1, refill_interval: 24h}
  plans:
    pro:
      - {name: burst, capacity: 5, refill_rate: 1, refill_interval: 24h}
      - {name: daily, capacity: 20, refill_rate: 1, refill_interval: 24h}
  overrides: {vip: [{name: daily, capacity: 2, refill_rate: 1, refill_interval: 24h}]}
  blocked: [eve]
- name: dark
  shadow: true
  limits: [1/day]
`

// sentence is what a command says of the next request.
func sentence(t *testing.T, out string) string {
	t.Helper()
	_, says, found := strings.Cut(out, "  The next request: ")
	require.True(t, found, out)
	says, _, _ = strings.Cut(says, ".\n")
	return says
}

// Whatever was done before, what a command says of the next request is what a
// limiter then decides, and get says the same. The exit code is 1 if the
// command was to let the client in, or a block stands, and the request is
// denied.
func TestWhatIsSaidOfTheNextRequestIsDecided(t *testing.T) {
	s := serve(t)
	files(t, map[string]string{"p.yaml": nextPolicies})
	policies, err := policyfile.LoadFile("p.yaml")
	require.NoError(t, err)
	store := redisstore.New(s.client, redisstore.WithPrefix(s.prefix), redisstore.WithTimeout(5*time.Second), redisstore.WithDenyCache(0))
	api := core.Must(core.NewLimiter(store, policies["api"]))
	pro := core.Must(api.WithPlan("pro"))
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	said, overridden := make(map[string]int), make(map[string]bool)
	log := []string{fmt.Sprint("seed ", seed)}
	for i := 0; i < 150 || min(said["allowed"], said["denied"]) <= 20; i++ {
		require.Less(t, i, 3000, "the premise: both happen often: %v", said)
		key := []string{"ann", "pro-bob", "vip", "eve", "joe"}[random.IntN(5)]
		by := api
		if strings.HasPrefix(key, "pro-") {
			by = pro
		}
		used, err := inspect.Key(t.Context(), api, key)
		require.NoError(t, err)
		var line []string
		lets, ends := true, false // the client in; a block or an override
		switch n := fmt.Sprint(1 + random.IntN(5)); random.IntN(8) {
		case 0:
			line = []string{"reset", "api", key}
		case 1:
			line = []string{"credit", "api", key, []string{"burst", "daily"}[random.IntN(2)], n}
		case 2:
			line, lets = []string{"debit", "api", key, []string{"burst", "daily"}[random.IntN(2)], n}, false
			if by == pro && len(used.Limits) == 0 {
				continue // nobody knows its plan
			}
		case 3:
			line, overridden[key] = []string{"override", "api", key, n + "/day name daily"}, true
		case 4:
			line, lets, ends = []string{"override", "-remove", "api", key}, false, true
		case 5:
			line = []string{"block", "api", key}
		case 6:
			line, ends = []string{"unblock", "api", key}, true
		case 7:
			line, overridden[key] = []string{"override", "api", key, "x2"}, true
		}
		out, errs, code := s.run(t, line[0], append([]string{"-policies", "p.yaml"}, line[1:]...)...)
		log = append(log, strings.Join(line, " ")+"\n"+out+errs)
		if !assert.Empty(t, errs, strings.Join(log, "\n")) {
			return
		}
		says := sentence(t, out)
		require.NoError(t, store.ReadExceptions(t.Context(), api))
		peek, _, _ := s.run(t, "get", "-policies", "p.yaml", "api", key)
		same, _, _ := strings.Cut(says, ", next token in ") // which goes down meanwhile
		assert.Contains(t, peek, "api "+key+": "+same, "get says the same: %s", out)
		res, err := by.Allow(t.Context(), key)
		require.NoError(t, err)
		kind, _, _ := strings.Cut(says, ":")
		said[kind]++
		if kind == "not known" && overridden[key] {
			continue // of which plan the limits are that an override of before has left
		}
		if !assert.Equal(t, map[bool]string{true: "allowed", false: "denied"}[res.Allowed], kind, strings.Join(log, "\n")) {
			return
		}
		blocked := strings.Contains(says, "blocks this key")
		found := line[0] != "block" && !res.Allowed && (lets || blocked) || ends && strings.Contains(out, "in Redis. If Redis")
		assert.Equal(t, found, code == cli.Found, "the exit code is 1 if the client still gets 429: %v\n%s", line, out)
	}
}

// A policy in shadow mode denies nobody, so nothing is left to do.
func TestTheNextRequestPassesInShadowMode(t *testing.T) {
	s := serve(t)
	files(t, map[string]string{"p.yaml": nextPolicies})
	for _, line := range [][]string{{"block", "dark", "ann", "-by", "ann"}, {"credit", "dark", "ann", "dark", "1"}, {"reset", "dark", "ann"}} {
		out := s.runOK(t, line[0], append([]string{"-policies", "p.yaml"}, line[1:]...)...)
		assert.Contains(t, out, "  The next request: denied: an operator blocks this key (ann).\n  The policy is in shadow mode: it denies nobody.\n")
	}
}

// What was deleted of a customer that the file blocks is still denied.
func TestForgetSaysWhoIsStillDenied(t *testing.T) {
	s := serve(t)
	files(t, map[string]string{"p.yaml": nextPolicies})
	for _, key := range []string{"eve", "ann"} {
		require.NoError(t, s.store.SetException(context.Background(), "api", redisstore.Exception{Key: key}))
	}
	out, _, code := s.run(t, "forget", "-policies", "p.yaml", "eve")
	assert.Equal(t, cli.Found, code)
	assert.Contains(t, out, "0 keys and 1 exception deleted, of 0:\n")
	assert.Contains(t, out, "  The next request of api eve: denied: the policy blocks this key.\n")
	out = s.runOK(t, "forget", "-policies", "p.yaml", "ann")
	assert.NotContains(t, out, "The next request")
}
