package redisstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// lead makes k a busy key of l. It returns how many tokens l then has on lease.
func (b *leaseBench) lead(l *core.Limiter, requests int) (parked int64) {
	b.Helper()
	before := b.remaining()
	b.take(l, requests)
	parked = before - int64(requests) - b.remaining()
	require.Positive(b, parked, "premise: tokens are on lease")
	return parked
}

func TestReservationsAndDelaysIncludeLeases(t *testing.T) {
	limit := core.PerSecond(10_000)
	b := newLeaseBench(t, limit)
	l, other := b.process(redisstore.WithLease(1000)), b.process(redisstore.WithDenyCache(0))
	parked := b.lead(l, 1500)
	r, err := other.Reserve(t.Context(), "k", 10_000)
	require.NoError(t, err)
	require.True(t, r.OK())
	assert.GreaterOrEqual(t, r.Delay(), 2*time.Second, "until the lease of %d has ended there is no room for 10,000", parked)
	require.NoError(t, r.Cancel(t.Context()))
	res, err := other.AllowN(t.Context(), "k", 10_000)
	require.NoError(t, err)
	require.False(t, res.Allowed)
	b.clock.Move(res.RetryAfter)
	res, err = other.AllowN(t.Context(), "k", 10_000)
	require.NoError(t, err)
	assert.True(t, res.Allowed, "RetryAfter suffices, also after a process died with a lease")
}

func TestLeaseHoldsOnlyTheLimitsItWasTakenFrom(t *testing.T) {
	x, y := core.PerSecond(1000).WithName("x"), core.PerHour(5).WithName("y")
	b := newLeaseBench(t, x)
	l := b.process(redisstore.WithLease(100))
	parked := b.lead(l, 40)
	tier, err := b.plain.WithLimits(x, y)
	require.NoError(t, err)
	limits := peek(t, tier).Limits()
	assert.Equal(t, []int64{960 - parked, 5}, []int64{limits[0].Remaining, limits[1].Remaining}, "a lease must not hold tokens of other limits")
	res, err := tier.AllowN(t.Context(), "k", 5)
	require.NoError(t, err)
	assert.True(t, res.Allowed)

	both := newLeaseBench(t, x, y.WithBurst(1000))
	l = both.process(redisstore.WithLease(100))
	onLease := both.lead(l, 40)
	sole, err := both.plain.WithLimits(x)
	require.NoError(t, err)
	limittest.Use(t, sole, "k", 1)
	both.clock.Move(time.Second)
	for _, limit := range peek(t, both.plain).Limits() {
		assert.LessOrEqual(t, limit.Remaining+onLease, limit.Limit.Capacity, "a write under x must keep y's holds")
	}
}

func TestLeaseUnderWayTakesNothingFromOtherLimits(t *testing.T) {
	x, y := core.PerDay(10_000).WithName("x"), core.PerDay(10).WithName("y")
	b := newLeaseBench(t, x)
	gate := &gateHook{}
	b.client.AddHook(gate)
	l := b.process(redisstore.WithLease(100))
	tier, err := l.WithLimits(x, y)
	require.NoError(t, err)
	limittest.Use(t, tier, "k", 1)
	b.clock.Move(time.Second) // the key is not busy under the tier's limits
	b.lead(l, 500)
	reply := gate.afterServer()
	renewed := make(chan core.Result, 1)
	go func() { res, _ := l.AllowN(t.Context(), "k", 200); renewed <- res }()
	<-reply.reached
	res, err := b.plain.WithLimits(x, y)
	require.NoError(t, err)
	limittest.Use(t, res, "k", 9)
	close(reply.release)
	assert.True(t, (<-renewed).Allowed)
}

// In a failover the server's clock may step back by seconds. The process that
// has the lease does not notice.
func TestLeasesStillCountAfterTheClockStepsBack(t *testing.T) {
	limit := core.PerSecond(10_000)
	for _, back := range []time.Duration{time.Millisecond, 2 * time.Second, 3 * time.Second, time.Hour} {
		b := newLeaseBench(t, limit)
		l := b.process(redisstore.WithLease(1000))
		parked := b.lead(l, 1500)
		promoted := limittest.ClockAt(b.clock.Now().Add(-back))
		other := limittest.Limiter(t, redisstore.New(b.client, redisstore.WithPrefix(b.prefix), core.WithClock(promoted.Now), longTimeout, redisstore.WithDenyCache(0)), "api", limit)
		limittest.Use(t, other, "k", 1)
		promoted.Move(time.Second)
		assert.LessOrEqual(t, takeAll(t, other, 10)+parked, limit.Capacity, "the clock stepped back by %v, a lease of %d is in use", back, parked)
	}
}

func TestLeaseOlderThanAResetGivesNothingBack(t *testing.T) {
	b := newLeaseBench(t, noRefill(10_000))
	old, other := b.process(redisstore.WithLease(1000)), b.process(redisstore.WithLease(1000), redisstore.WithDenyCache(0))
	b.lead(old, 1500)
	require.NoError(t, b.plain.Reset(t.Context(), "k"))
	parked := b.lead(other, 1500)
	b.stores[1].GiveBack()
	left := b.remaining()
	assert.Equal(t, int64(10_000-1500)-parked, left, "a lease older than the reset must not return tokens")
	assert.Equal(t, int64(10_000-1500), takeAll(t, other, 1), "every token is admitted once")
}

// A request that needs more tokens than its process has on lease settles the
// lease with its own call. It does so too if the lease arrives while it waits.
func TestRequestCanUseTokensItsProcessLeased(t *testing.T) {
	busy := func(t *testing.T) (*leaseBench, *core.Limiter) {
		t.Helper()
		b := newLeaseBench(t, noRefill(1000))
		l := b.process(redisstore.WithLease(64))
		b.lead(l, 800)
		return b, l
	}
	t.Run("AllowN", func(t *testing.T) {
		_, l := busy(t)
		limittest.Use(t, l, "k", 200)
	})
	t.Run("Reserve", func(t *testing.T) {
		_, l := busy(t)
		assert.Zero(t, reserve(t, l, 200).Delay())
	})
	t.Run("AllowN while a lease is on its way", func(t *testing.T) {
		b, l := busy(t)
		gate := &gateHook{}
		b.client.AddHook(gate)
		b.giveBack()
		limittest.Use(t, b.plain, "k", 200-41)
		reply := gate.afterServer()
		small, large := make(chan core.Result, 1), make(chan core.Result, 1)
		go func() { res, _ := l.Allow(t.Context(), "k"); small <- res }()
		<-reply.reached
		go func() { res, _ := l.AllowN(t.Context(), "k", 30); large <- res }()
		assert.Never(t, func() bool { return len(large) > 0 }, 50*time.Millisecond, time.Millisecond)
		close(reply.release)
		assert.True(t, (<-small).Allowed)
		assert.True(t, (<-large).Allowed, "of 40 tokens 20 came on lease")
	})
}

// refusingOnce fails the next decision, unsent.
type refusingOnce struct {
	redistest.Hook

	armed atomic.Bool
}

func (h *refusingOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && h.armed.CompareAndSwap(true, false) {
			err := errors.New("refused")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// If a call fails that was to settle a lease, the unused tokens of the lease
// are not lost.
func TestLeaseComesBackAfterACallThatFailed(t *testing.T) {
	ctx := context.Background()
	for name, call := range map[string]func(l *core.Limiter) error{
		"renewal": func(l *core.Limiter) error {
			_, err := l.AllowN(ctx, "k", 500)
			return err
		},
		"reservation": func(l *core.Limiter) error {
			_, err := l.Reserve(ctx, "k", 500)
			return err
		},
		"together, first": func(l *core.Limiter) error {
			_, err := core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "k"}, core.Charge{Limiter: l, Key: "other"})
			return err
		},
		"together, second": func(l *core.Limiter) error {
			_, err := core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "k"}, core.Charge{Limiter: l, Key: "another"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newLeaseBench(t, noRefill(1000))
			once := &refusingOnce{}
			b.client.AddHook(once)
			l := b.process(redisstore.WithLease(64))
			b.take(l, 210)
			require.Less(t, b.remaining(), int64(790), "some are on lease")
			once.armed.Store(true)
			require.ErrorIs(t, call(l), core.ErrUnavailable)
			require.False(t, once.armed.Load())
			require.Eventually(t, func() bool {
				res, err := b.plain.Peek(ctx, "k")
				return err == nil && res.Remaining == 790
			}, 20*time.Second, time.Millisecond, "what was on lease comes back")
		})
	}
}
