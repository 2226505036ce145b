package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Tests of leases on keys whose limits change, or that are used under several
// lists of limits.

func TestLeaseReturnedAfterSetPolicyRefillsAtTheNewRate(t *testing.T) {
	fast := core.Limit{Name: "a", Capacity: 100_000, RefillRate: 100_000, RefillInterval: time.Second}
	b := newLeaseBench(t, fast)
	b.client.AddHook(&redistest.Keeper{})
	l := b.process(redisstore.WithLease(1000))
	limittest.Use(t, l, "k", 90_000)
	require.Positive(t, b.take(l, 10), "premise: a lease under the fast limits")
	slow := core.PerHour(1).WithName("a").WithBurst(100_000)
	require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{slow}}))
	require.EqualValues(t, 100_000-90_000-10, limittest.Left(t, l, "k"), "a change alters nothing")
	b.clock.Move(time.Second)
	b.giveBack()
	require.EqualValues(t, 100_000-90_000-10, limittest.Left(t, l, "k"), "an hour adds one token at the new rate")
}

// A larger request must wait for a lease that is being renewed, which has the
// tokens it needs.
func TestLargeRequestWaitsForALeaseUnderWay(t *testing.T) {
	b := newLeaseBench(t, noRefill(1000))
	gate := &gateHook{}
	b.client.AddHook(gate)
	l := b.process(redisstore.WithLease(100))
	const before = 1 + 2 + 3 + 5 + 9 + 17 + 33 // leases of 1 to 32 tokens; the next is of 64
	b.take(l, before)
	reply := gate.afterServer()
	small, large := make(chan core.Result, 1), make(chan core.Result, 1)
	go func() { res, _ := l.Allow(t.Context(), "k"); small <- res }()
	<-reply.reached
	rest := int64(1000 - before - 1 - 10)
	go func() { res, _ := l.AllowN(t.Context(), "k", rest); large <- res }()
	assert.Never(t, func() bool { return len(large) > 0 }, 50*time.Millisecond, time.Millisecond)
	close(reply.release)
	assert.True(t, (<-small).Allowed)
	assert.True(t, (<-large).Allowed, "the renewed lease has the tokens")
	b.giveBack()
	assert.Equal(t, int64(10), b.remaining())
}

func TestUndoReturnsTokensToTheLimitsTheyCameFrom(t *testing.T) {
	limits := func(limits ...core.Limit) core.Policy { return core.Policy{Name: "api", Limits: limits} }
	x, z := core.PerHour(10).WithName("x"), core.PerHour(10).WithName("z")
	onBoth(t, func(t *testing.T, s core.Store, _ *limittest.Clock) {
		l := core.Must(core.NewLimiter(s, limits(x)))
		taken, err := l.AllowN(t.Context(), "k", 8)
		require.NoError(t, err)
		require.NoError(t, l.SetPolicy(limits(x, z)))
		_, err = l.AllowN(t.Context(), "k", 2)
		require.NoError(t, err)
		require.NoError(t, l.SetPolicy(limits(z)))
		require.Equal(t, 8, admitted(t, l, 20))
		require.NoError(t, taken.Undo(t.Context()))
		assert.Zero(t, admitted(t, l, 20), "Undo must return nothing to a limit that was not charged")

		base := core.Must(core.NewLimiter(s, core.Policy{Name: "tiers", Limits: []core.Limit{x}}))
		one, err := base.WithLimits(core.PerHour(100).WithName("gold"), z)
		require.NoError(t, err)
		other, err := base.WithLimits(core.PerHour(100).WithName("gold"), z)
		require.NoError(t, err)
		require.NoError(t, one.SetPolicy(core.Policy{Name: "tiers", Limits: []core.Limit{core.PerHour(7).WithName("silver"), core.PerHour(8).WithName("iron")}}))
		taken, err = other.AllowN(t.Context(), "k", 5)
		require.NoError(t, err)
		require.NoError(t, taken.Undo(t.Context()))
		res, err := other.Peek(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, int64(10), res.Remaining, "SetPolicy of one limiter must not redirect another's tokens")
	})
}

func TestReturnedLeaseKeepsTheTokensOfAnOverride(t *testing.T) {
	b := newLeaseBench(t, noRefill(100))
	l := b.process(redisstore.WithLease(10))
	key := strings.Repeat("k", 200) // which stores shorten
	for range 10 {
		_, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
	}
	policy := l.Policy()
	policy.Overrides = map[string][]core.Limit{key: {noRefill(1000)}}
	require.NoError(t, l.SetPolicy(policy))
	limittest.Use(t, l, key, 1)
	b.giveBack()
	assert.Equal(t, int64(1000-10-1), limittest.Left(t, l, key), "a lease that was taken under the former limits")
}
