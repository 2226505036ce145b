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
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
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

// planPolicies have limits that don't refill while a test runs.
const planPolicies = `- name: api
  limits:
    - {name: minute, capacity: 10, refill_rate: 1, refill_interval: 24h}
    - {name: day, capacity: 100, refill_rate: 1, refill_interval: 6h}
  plans:
    free: [{name: minute, capacity: 5, refill_rate: 1, refill_interval: 24h}]
    pro:
      - {name: minute, capacity: 60, refill_rate: 1, refill_interval: 24h}
      - {name: day, capacity: 1000, refill_rate: 1, refill_interval: 6h}
      - {name: words, unit: words, capacity: 900, refill_rate: 1, refill_interval: 6h}
`

// planned returns a service of planPolicies, and a limiter of the plan pro.
func planned(t *testing.T) (s *service, pro *core.Limiter) {
	t.Helper()
	server := redistest.Start(t)
	s = &service{client: server.Client(t), addr: server.Addr, prefix: "ratelimit:"}
	files(t, map[string]string{"p.yaml": planPolicies})
	policies, err := policyfile.LoadFile("p.yaml")
	require.NoError(t, err)
	s.store = redisstore.New(s.client, redisstore.WithTimeout(5*time.Second))
	s.api = core.Must(core.NewLimiter(s.store, policies["api"]))
	return s, core.Must(s.api.WithPlan("pro"))
}

// Redis does not know the plan of a customer. The tools find it by the
// definitions that wrote the bucket.
func TestToolsFindThePlanOfAKey(t *testing.T) {
	s, pro := planned(t)
	for range 16 {
		res, err := pro.AllowUnits(t.Context(), "user:bob", core.Units{core.Requests: 1, "words": 10})
		require.NoError(t, err)
		require.True(t, res.Allowed)
	}
	s.use(t, "user:eve", 10)

	out := s.runOK(t, "get", "-policies", "p.yaml", "api", "user:bob")
	assert.Contains(t, out, "api user:bob: allowed: 44 of 60 tokens left of minute\n")
	assert.Regexp(t, `minute +44 +60 .*  plan "pro"\n`, out)
	assert.Regexp(t, `day +984 +1,000`, out)
	assert.NotContains(t, out, "last used with")
	out = s.runOK(t, "get", "-policies", "p.yaml", "api", "user:bob", "-json")
	assert.Contains(t, out, `"plan": "pro"`)
	assert.NotContains(t, out, "unknown")
	out, _, code := s.run(t, "get", "-policies", "p.yaml", "api", "user:eve")
	assert.Contains(t, out, "denied: minute is used up")
	assert.NotContains(t, out, "plan")
	assert.Equal(t, cli.Found, code)

	out = s.runOK(t, "list", "-policies", "p.yaml", "api")
	assert.Contains(t, out, "api: 2 keys, 1 denied now\n")
	assert.Contains(t, out, `user:bob  allowed: 44 of 60 tokens left of minute (plan "pro")`)
	out = s.runOK(t, "find", "-policies", "p.yaml", "bob")
	assert.Contains(t, out, "allowed: 44 of 60 tokens left of minute")
	out = s.runOK(t, "credit", "-policies", "p.yaml", "api", "user:bob", "day", "4")
	assert.Contains(t, out, "day has 988 of 1,000 tokens left, and had 984.")
	out = s.runOK(t, "doctor", "-policies", "p.yaml", "-store-timeout", "5s")
	assert.NotRegexp(t, `(?m)^fault`, out)
	assert.Contains(t, out, "every limit was last used as the file defines it")

	out = s.runOK(t, "override", "-policies", "p.yaml", "api", "user:bob", "600/day name minute", "-for", "7d", "-by", "ann", "-reason", "launch")
	assert.Contains(t, out, "  minute: 600/day, was 1/day burst 60\n")
	list, err := s.store.Exceptions(t.Context(), "api")
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Len(t, list[0].Limits, 1, "the limits that it does not name stay those of the plan: %v", list[0].Limits)
	out = s.runOK(t, "get", "-policies", "p.yaml", "api", "user:bob")
	assert.Regexp(t, `minute +584 +600 .*  an override of ann until [-0-9]+ [:0-9]+ UTC: "launch", `, out)
	assert.Regexp(t, `day +988 +1,000 .*  plan "pro"\n`, out)
	_, err = s.store.EndOverride(t.Context(), "api", "user:bob")
	require.NoError(t, err)

	out = s.runOK(t, "override", "-policies", "p.yaml", "api", "user:bob", "x10", "-by", "ann")
	assert.Contains(t, out, "has an override until it is removed:\n  minute: 10/day burst 600, was 1/day burst 60\n  day: ", "ten times what the plan says")
	out = s.runOK(t, "get", "-policies", "p.yaml", "api", "user:bob")
	assert.Regexp(t, `minute +584 +600 .*  plan "pro", x10 by ann, `, out)
	require.NoError(t, s.store.ReadExceptions(t.Context(), pro))
	more, err := pro.Peek(t.Context(), "user:bob")
	require.NoError(t, err)
	assert.EqualValues(t, 584, more.Remaining, "the service obeys")
	out = s.runOK(t, "exceptions", "-policies", "p.yaml", "api")
	assert.Contains(t, out, "x10")
	assert.Contains(t, s.runOK(t, "override", "-policies", "p.yaml", "api", "user:bob", "X10"), "  its limits are as before\n")
	out = s.runOK(t, "override", "-policies", "p.yaml", "api", "user:bob", "x2 name day")
	assert.Contains(t, out, "  day: ")
	assert.NotContains(t, out, "minute: ")
	_, errs, _ := s.run(t, "override", "-policies", "p.yaml", "api", "user:bob", "x2 name month")
	assert.Contains(t, errs, "no limit month")
	_, err = s.store.EndOverride(t.Context(), "api", "user:bob")
	require.NoError(t, err)
	require.NoError(t, s.store.ReadExceptions(t.Context(), pro))

	res, err := pro.Peek(t.Context(), "user:bob")
	require.NoError(t, err)
	assert.EqualValues(t, 44, res.Remaining, "the customer's next request finds what the tools say")
}

// Somebody who knows the plan says it. Else a key that was never used has the
// policy's own limits.
func TestGetDecidesByThePlanThatIsGiven(t *testing.T) {
	s, pro := planned(t)
	out := s.runOK(t, "get", "-policies", "p.yaml", "api", "new")
	assert.Regexp(t, `minute +10 +10`, out)
	out = s.runOK(t, "get", "-policies", "p.yaml", "-plan", "pro", "api", "new")
	assert.Regexp(t, `minute +60 +60`, out)
	res, err := pro.AllowUnits(t.Context(), "bob", core.Units{core.Requests: 9, "words": 1})
	require.NoError(t, err)
	require.True(t, res.Allowed)
	out, _, code := s.run(t, "get", "-policies", "p.yaml", "-plan", "free", "api", "bob")
	assert.Contains(t, out, "denied: minute is used up", "as bob would be after a downgrade")
	assert.Equal(t, cli.Found, code)
	_, errs, code := s.run(t, "get", "-policies", "p.yaml", "-plan", "gold", "api", "bob")
	assert.Contains(t, errs, "api has no plan gold (there are free, pro)")
	assert.Equal(t, cli.Misused, code)
}

// A file that lacks the definition by which the service decides can't say what
// the customer will see next.
func TestGetGivesNoVerdictByAnotherFile(t *testing.T) {
	s, pro := planned(t)
	policy := pro.Policy()
	policy.Plans = nil
	policy.Limits = []core.Limit{core.PerDay(1).WithBurst(70).WithName("minute")}
	_, err := core.Must(core.NewLimiter(s.store, policy)).AllowN(t.Context(), "bob", 65)
	require.NoError(t, err)
	out, _, code := s.run(t, "get", "-policies", "p.yaml", "api", "bob")
	assert.Contains(t, out, "api bob: not known: minute was last decided with a capacity of 70, which this file does not have\n")
	assert.Equal(t, cli.Found, code)
	out = s.runOK(t, "list", "-policies", "p.yaml", "api")
	assert.Contains(t, out, "1 key, 0 denied now, 1 not known\n")
	out, _, code = s.run(t, "get", "-policies", "p.yaml", "-plan", "free", "api", "bob")
	assert.Contains(t, out, "denied: minute is used up", "a plan that is given decides")
	assert.Equal(t, cli.Found, code)
}

// What an exception decided is of no other service, while it holds and after
// its end.
func TestToolsKnowExceptionsOfPlans(t *testing.T) {
	s, pro := planned(t)
	allow := func(n int64) {
		require.NoError(t, s.store.ReadExceptions(t.Context(), pro))
		res, err := pro.AllowUnits(t.Context(), "user:bob", core.Units{core.Requests: n, "words": 1})
		require.NoError(t, err)
		require.True(t, res.Allowed)
	}
	clean := func(when string) {
		assert.Contains(t, s.runOK(t, "doctor", "-policies", "p.yaml", "-store-timeout", "5s"), "every limit was last used as the file defines it", when)
	}
	allow(7)
	for _, limit := range []string{"x10", "1/day burst 600 name minute"} {
		s.runOK(t, "override", "-policies", "p.yaml", "api", "user:bob", limit)
		clean("before the first request by " + limit)
		allow(2)
		clean("by " + limit)
		assert.Regexp(t, `minute +5[0-9]+ +600 `, s.runOK(t, "get", "-policies", "p.yaml", "api", "user:bob"))
	}
	s.runOK(t, "override", "-policies", "p.yaml", "api", "user:bob", "-remove")
	clean("after the end")
	out, _, _ := s.run(t, "get", "-policies", "p.yaml", "api", "user:bob")
	assert.Contains(t, out, "not known: an override of before decided last, and the store does not know which plan the key has: -plan says it")
	assert.Contains(t, s.runOK(t, "list", "-policies", "p.yaml", "api"), "0 denied now, 1 not known\n")
	assert.Regexp(t, `minute +49 +60 .*plan "pro"`, s.runOK(t, "get", "-policies", "p.yaml", "-plan", "pro", "api", "user:bob"))
	allow(1)
	assert.Regexp(t, `minute +48 +60 .*plan "pro"`, s.runOK(t, "get", "-policies", "p.yaml", "api", "user:bob"), "the next request says it")

	files(t, map[string]string{"p.yaml": planPolicies, "later.yaml": "- name: api\n  limits: [{name: day, capacity: 100, refill_rate: 1, refill_interval: 6h}]\n"})
	s.runOK(t, "override", "-policies", "p.yaml", "api", "user:bob", "1/day burst 600 name minute")
	out, _, _ = s.run(t, "doctor", "-policies", "later.yaml", "-store-timeout", "5s")
	assert.Regexp(t, `note +exceptions .*"minute" is no limit of the policy`, out, "an override that the file has no limit for")
}

// A plan has limits that the one before had too, or lacks some: what a decision
// has written says which one it was.
func TestToolsFindThePlanAfterAChange(t *testing.T) {
	s, _ := planned(t)
	for _, plan := range []string{"pro", "free", "", "pro", "", "free", "pro"} {
		of := core.Must(s.api.WithPlan(plan))
		_, err := of.AllowN(t.Context(), "user:bob", 1)
		require.NoError(t, err)
		out, _, _ := s.run(t, "get", "-policies", "p.yaml", "api", "user:bob", "-json")
		if plan == "" {
			assert.NotContains(t, out, `"plan"`)
		} else {
			assert.Contains(t, out, `"plan": "`+plan+`"`)
		}
	}
}
