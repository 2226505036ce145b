package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
)

func TestCopyMovesToAnotherServer(t *testing.T) {
	from, to := own(t), own(t)
	for _, key := range []string{"ann", "bob", strings.Repeat("long", 50)} {
		from.use(t, key, 3)
	}
	res, err := from.jobs.AllowUnits(t.Context(), "ann", core.Units{"tokens": 300})
	require.NoError(t, err)
	to.use(t, "bob", 5)
	_, _, code := from.run(t, "copy", "redis://"+from.addr, "redis://"+from.addr+"/0")
	assert.Equal(t, cli.Misused, code, "a copy onto itself")
	out := from.runOK(t, "copy", "-dry-run", "redis://"+from.addr, "redis://"+to.addr)
	assert.Contains(t, out, "4 keys would be copied")
	out = from.runOK(t, "copy", "redis://"+from.addr, "redis://"+to.addr)
	assert.Contains(t, out, "3 keys copied to Redis at "+to.addr)
	assert.Contains(t, out, "1 not: TO has them")
	left := func(s *service, key string) int64 {
		res, err := s.api.Peek(t.Context(), key)
		require.NoError(t, err)
		return res.Remaining
	}
	for key, want := range map[string]int64{"ann": 2, "bob": 0, strings.Repeat("long", 50): 2} {
		assert.Equal(t, want, left(to, key), "%.10s", key)
	}
	ttl := func(s *service) time.Duration { return s.client.PTTL(t.Context(), "ratelimit:api:ann").Val() }
	assert.InDelta(t, ttl(from), ttl(to), float64(time.Minute), "the TTL is copied")
	found, err := to.jobs.Inspect(t.Context(), "ann")
	require.NoError(t, err)
	assert.Equal(t, int64(1), found.Limits[0].Held, "slots in use are copied")
	_, errs, code := from.run(t, "copy", "-policy", "ap", "redis://"+from.addr, "redis://"+to.addr)
	assert.Equal(t, cli.Misused, code, "a policy that FROM does not have")
	assert.Contains(t, errs, "policy ap has no keys at Redis at "+from.addr+": did you mean api?")
	assert.Contains(t, from.runOK(t, "copy", "-replace", "-policy", "api", "redis://"+from.addr, "redis://"+to.addr), "3 keys copied")
	assert.Equal(t, int64(2), left(to, "bob"))
	require.NoError(t, res.Release(t.Context()))
}

func TestCopyRenamesAPolicy(t *testing.T) {
	s := own(t)
	require.NoError(t, os.WriteFile("r.yaml", []byte("- {name: public, limits: [1000/day, {tokens: 5000/day hold 1h}, 3 at once hold 1h, {name: mine, capacity: 7, refill_rate: 1, refill_interval: 24h}]}\n"), 0o600))
	limits := []core.Limit{
		core.PerDay(1000), core.PerDay(5000).WithUnit("tokens").WithMaxHold(time.Hour), core.InFlight(3).WithMaxHold(time.Hour),
		core.PerDay(1).WithBurst(7).WithName("mine"),
	}
	before := core.Must(core.NewLimiter(s.store, core.Policy{Name: "api", Limits: limits}))
	after := core.Must(core.NewLimiter(s.store, core.Policy{Name: "public", Limits: limits}))
	res, err := before.AllowUnits(t.Context(), "ann", core.Units{"tokens": 300})
	require.NoError(t, err)
	require.True(t, res.Allowed)
	url := "redis://" + s.addr
	out := s.runOK(t, "copy", "-policies", "r.yaml", "-rename", "api=public", url, url)
	assert.Contains(t, out, "1 key copied")
	want, err := before.Peek(t.Context(), "ann")
	require.NoError(t, err)
	got, err := after.Peek(t.Context(), "ann")
	require.NoError(t, err)
	for i, limit := range want.Limits() {
		assert.Equal(t, limit.Remaining, got.Limits()[i].Remaining, "%s keeps its tokens as %s", limit.Limit.Name, got.Limits()[i].Limit.Name)
		assert.Less(t, limit.Remaining, limit.Limit.Capacity, "the premise: all are in use")
	}
	found, err := after.Inspect(t.Context(), "ann")
	require.NoError(t, err)
	assert.Zero(t, found.Others, "no limit of the old name is left")
	_, errs, code := s.run(t, "copy", "-rename", "api=public", url, url)
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "needs -policies")
	_, errs, code = s.run(t, "copy", "-policies", "r.yaml", "-rename", "a=b", url, url)
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "neither policy is in")
}
