package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// scripts returns how many scripts a server has run.
func scripts(t *testing.T, c *redis.Client) (calls int) {
	t.Helper()
	stats, err := c.Info(context.Background(), "commandstats").Result()
	require.NoError(t, err)
	for line := range strings.Lines(stats) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if name == "cmdstat_evalsha" || name == "cmdstat_eval" {
			count, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(count)
			require.NoError(t, err)
			calls += n
		}
	}
	return calls
}

// denyBench has a server of its own, so that it can count all scripts.
type denyBench struct {
	*testing.T

	client *redis.Client
	now    time.Time
	store  *redisstore.Store
}

func newDenyBench(t *testing.T, options ...redisstore.Option) *denyBench {
	t.Helper()
	b := &denyBench{T: t, client: redistest.Start(t).Client(t), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.client.AddHook(&redistest.Keeper{})
	options = append(options, longTimeout, core.WithClock(func() time.Time { return b.now }))
	b.store = redisstore.New(b.client, options...)
	return b
}

// asks makes a decision and reports whether the store asked Redis.
func (b *denyBench) asks(l *core.Limiter, cost int64) (res core.Result, asked bool) {
	b.Helper()
	before := scripts(b.T, b.client)
	res, err := l.AllowN(context.Background(), "k", cost)
	require.NoError(b, err)
	asked = scripts(b.T, b.client) > before
	assert.Equal(b, asked, res.Source == core.FromStore, "Result.Source must be who decided: %v", res.Source)
	return res, asked
}

// denied checks that cost is denied without asking Redis.
func (b *denyBench) denied(l *core.Limiter, cost int64, retry time.Duration, rule string) {
	b.Helper()
	res, asked := b.asks(l, cost)
	assert.False(b, asked, rule)
	assert.False(b, res.Allowed, rule)
	assert.Equal(b, retry, res.RetryAfter, rule)
	assert.Equal(b, core.FromDenyCache, res.Source, rule)
}

// asked checks that the store asks Redis.
func (b *denyBench) asked(l *core.Limiter, cost int64, allowed bool, rule string) {
	b.Helper()
	res, asked := b.asks(l, cost)
	assert.True(b, asked, rule)
	assert.Equal(b, allowed, res.Allowed, rule)
}

func TestDenialIsRepeatedWithoutRedis(t *testing.T) {
	b := newDenyBench(t)
	l := limittest.Limiter(t, b.store, "api", core.Limit{Capacity: 10, RefillRate: 10, RefillInterval: 5 * time.Second}) // a token in 500 ms
	b.asked(l, 9, true, "a first decision")
	b.asked(l, 3, false, "a first denial")
	b.denied(l, 3, time.Second, "the same again")
	b.asked(l, 11, false, "a cost above the capacity")
	b.denied(l, 11, core.Never, "the same again")
	b.asked(l, 2, false, "another cost has a denial of its own")
	b.denied(l, 2, 500*time.Millisecond, "and then it is cached")
	b.now = b.now.Add(200 * time.Millisecond)
	b.denied(l, 2, 300*time.Millisecond, "delays shrink as time passes")
	b.now = b.now.Add(300*time.Millisecond - time.Microsecond)
	b.denied(l, 2, time.Microsecond, "a cached denial holds to the last microsecond")
	b.now = b.now.Add(time.Microsecond)
	b.asked(l, 2, true, "a client that waited RetryAfter passes")
}

func TestCachedDenialEndsWhenTokensMayHaveReturned(t *testing.T) {
	ctx := context.Background()
	b := newDenyBench(t)
	empty := func(name string) *core.Limiter {
		l := limittest.Limiter(t, b.store, name, core.PerDay(2))
		b.asked(l, 2, true, "a first decision")
		b.asked(l, 1, false, "a first denial")
		b.denied(l, 1, 12*time.Hour, "the same again")
		return l
	}
	l := empty("refund")
	require.NoError(t, l.Refund(ctx, "k", 1))
	b.asked(l, 1, true, "a refund ends it")

	l = empty("reset")
	require.NoError(t, l.Reset(ctx, "k"))
	b.asked(l, 1, true, "a reset ends it")

	l = empty("undo")
	_, asked := b.asks(l, 0)
	assert.True(t, asked, "a peek always asks Redis")
	r, err := l.Reserve(ctx, "k", 1)
	require.NoError(t, err)
	require.True(t, r.Allowed, "a reservation is not denied by the cache")
	b.asked(l, 1, false, "a reservation changes the delay, so Redis is asked")
	b.denied(l, 1, 24*time.Hour, "the new denial is cached")
	require.NoError(t, r.Undo(ctx))
	b.asked(l, 1, false, "a cancelled reservation ends it")
	b.denied(l, 1, 12*time.Hour, "the delay is the old one again")

	l = empty("limits")
	other, err := l.WithLimits(core.PerDay(3))
	require.NoError(t, err)
	b.asked(other, 2, false, "other limits have their own denials")

	l = empty("horizon")
	b.now = b.now.Add(time.Second)
	b.asked(l, 1, false, "after a second another process may have given tokens back")

	l = empty("back")
	b.now = b.now.Add(-time.Hour)
	b.asked(l, 1, false, "after the clock steps back Redis is asked")

	l = empty("key")
	res, err := l.Allow(ctx, "another")
	require.NoError(t, err)
	assert.True(t, res.Allowed, "another key is not denied")
}

func TestDenyCacheOfZeroAsksRedisEveryTime(t *testing.T) {
	b := newDenyBench(t, redisstore.WithDenyCache(0))
	l := limittest.Limiter(t, b.store, "api", core.PerDay(1))
	b.asked(l, 1, true, "a first decision")
	for range 3 {
		b.asked(l, 1, false, "WithDenyCache(0) asks Redis every time")
	}
}

func TestNegativeDenyCacheIsReported(t *testing.T) {
	_, err := core.NewLimiter(redisstore.New(redis.NewClient(&redis.Options{}), redisstore.WithDenyCache(-1)),
		core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}})
	assert.ErrorContains(t, err, "WithDenyCache: -1ns must not be negative")
}

func TestCachedDenialCostsNoAllocation(t *testing.T) {
	s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithDenyCache(time.Hour))
	l := limittest.Limiter(t, s, "api", core.PerDay(1))
	ctx := context.Background()
	for range 2 {
		_, err := l.Allow(ctx, "k")
		require.NoError(t, err)
	}
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		if res, err := l.Allow(ctx, "k"); err != nil || res.Source != core.FromDenyCache {
			t.Error(res.Source, err)
		}
	}))
}

func BenchmarkCachedDenial(b *testing.B) {
	s := redisstore.New(redistest.Client(b), redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithDenyCache(time.Hour))
	l := limittest.Limiter(b, s, "api", core.PerDay(1))
	ctx := context.Background()
	for range 2 {
		if _, err := l.Allow(ctx, "k"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if res, _ := l.Allow(ctx, "k"); res.Source != core.FromDenyCache {
			b.Fatal("premise: the denial is repeated", res.Source)
		}
	}
}

// passedOn counts the requests that a store of the user's own passes on to the
// store that it embeds.
type passedOn struct {
	*redisstore.Store

	n *atomic.Int64
}

func (s passedOn) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.n.Add(1)
	return s.Store.Do(ctx, r)
}

func TestWrappingStoreSeesRepeatedDenials(t *testing.T) {
	s := passedOn{redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithDenyCache(time.Hour)), new(atomic.Int64)}
	l := limittest.Limiter(t, s, "api", core.PerDay(1))
	for range 5 {
		_, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
	}
	assert.EqualValues(t, 5, s.n.Load())
	assert.EqualValues(t, 3, s.Stats().Denied, "the store repeats the denial")
}

// A denial is repeated until the limits that the request takes from have its
// tokens. Those of other units may lack theirs.
func TestDenyCacheCountsNoOtherUnits(t *testing.T) {
	ctx := t.Context()
	clock := limittest.NewClock()
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), core.WithClock(clock.Now), redisstore.WithDenyCache(time.Minute), longTimeout), "api",
		core.PerMinute(60).WithBurst(1), core.PerHour(1).WithUnit("tokens"))
	res, err := l.AllowUnits(ctx, "k", core.Units{"tokens": 1})
	require.NoError(t, err)
	require.True(t, res.Allowed)
	for _, source := range []core.Source{core.FromStore, core.FromDenyCache} {
		res, err = l.Allow(ctx, "k")
		require.NoError(t, err)
		assert.Equal(t, source, res.Source)
		assert.Equal(t, time.Second, res.RetryAfter)
	}
	clock.Move(time.Second)
	limittest.Use(t, l, "k", 1)
}

// A penalty is told once, also where its denial is repeated. What a floor denies
// is no denial for others.
func TestDenialsOfPenaltiesAndFloors(t *testing.T) {
	var penalized int
	s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), longTimeout)
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "login", Limits: []core.Limit{core.PerHour(3).WithPenalty(time.Hour)}},
		core.WithObserver(func(_ context.Context, o core.Observation) {
			if o.Penalized {
				penalized++
			}
		})))
	res, err := l.AllowAbove(t.Context(), "k", 1, 3)
	require.NoError(t, err)
	require.False(t, res.Allowed)
	for range 3 {
		res, err = l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, res.Allowed)
	}
	for i := range 3 {
		res, err = l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, i > 0, res.Source == core.FromDenyCache, "the premise")
		require.Greater(t, res.RetryAfter, time.Hour)
	}
	require.Equal(t, 1, penalized)
}

// A denial under a penalty is repeated only until its debt is paid: what is
// denied after that makes another one.
func TestDenialsAreRepeatedUntilADebtIsPaid(t *testing.T) {
	b := newDenyBench(t)
	l := core.Must(core.NewLimiter(b.store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(5).WithBurst(1).WithPenalty(100 * time.Millisecond)}}))
	for _, each := range []struct {
		after time.Duration
		asked bool
		retry time.Duration
	}{{0, true, 0}, {0, true, 300 * time.Millisecond}, {90 * time.Millisecond, false, 210 * time.Millisecond}, {60 * time.Millisecond, true, 300 * time.Millisecond}} {
		b.now = b.now.Add(each.after)
		res, asked := b.asks(l, 1)
		require.Equal(t, each.asked, asked)
		require.Equal(t, each.retry, res.RetryAfter)
	}
}
