package redisstore_test

import (
	"context"
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

// asks makes a decision, and reports whether the cache asked its store.
func (s *side) asks(t *testing.T, key string, cost int64) (res core.Result, asked bool) {
	t.Helper()
	before := s.repeated()
	res, err := s.AllowN(t.Context(), key, cost)
	require.NoError(t, err)
	asked = s.repeated() == before
	assert.Equal(t, asked, res.Source == core.FromStore, "Result.Source must be who decided: %v", res.Source)
	return res, asked
}

func TestDenialIsRepeatedWithoutRedis(t *testing.T) {
	s := newSide(time.Second, core.Limit{Capacity: 10, RefillRate: 10, RefillInterval: 5 * time.Second}) // a token in 500 ms
	for _, step := range []struct {
		rule           string
		after          time.Duration
		cost           int64
		asked, allowed bool
		retry          time.Duration
	}{
		{"a first decision", 0, 9, true, true, 0},
		{"a first denial", 0, 3, true, false, time.Second},
		{"the same again", 0, 3, false, false, time.Second},
		{"a cost above the capacity", 0, 11, true, false, core.Never},
		{"the same again", 0, 11, false, false, core.Never},
		{"a peek always asks", 0, 0, true, true, 0},
		{"another cost has a denial of its own", 0, 2, true, false, 500 * time.Millisecond},
		{"and then it is cached", 0, 2, false, false, 500 * time.Millisecond},
		{"delays shrink as time passes", 200 * time.Millisecond, 2, false, false, 300 * time.Millisecond},
		{"a cached denial holds to the last microsecond", 300*time.Millisecond - time.Microsecond, 2, false, false, time.Microsecond},
		{"a client that waited RetryAfter passes", time.Microsecond, 2, true, true, 0},
		{"a first denial", 0, 9, true, false, 4500 * time.Millisecond},
		{"a clock that was set back has the store asked", -time.Hour, 9, true, false, 4500 * time.Millisecond},
		{"the new denial is cached", 999 * time.Millisecond, 9, false, false, 3501 * time.Millisecond},
		{"after a second another process may have given tokens back", time.Millisecond, 9, true, false, 3500 * time.Millisecond},
	} {
		s.now = s.now.Add(step.after)
		res, asked := s.asks(t, "k", step.cost)
		assert.Equal(t, step.asked, asked, step.rule)
		assert.Equal(t, step.allowed, res.Allowed, step.rule)
		assert.Equal(t, step.retry, res.RetryAfter, step.rule)
	}
	res, asked := s.asks(t, "another", 9)
	assert.True(t, asked && res.Allowed, "another key is not denied")
}

// cachedStore returns a store on Redis that repeats denials for so long.
func cachedStore(t testing.TB, horizon time.Duration) *redisstore.Store {
	t.Helper()
	return storeOn(redistest.Client(t), redisstore.WithDenyCache(horizon))
}

func TestDenyCacheOfZeroAsksRedisEveryTime(t *testing.T) {
	l := limittest.Limiter(t, cachedStore(t, 0), "api", core.PerDay(1))
	for range 4 {
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, core.FromStore, res.Source)
	}
}

func TestNegativeDenyCacheIsReported(t *testing.T) {
	_, err := core.NewLimiter(redisstore.New(redis.NewClient(&redis.Options{}), redisstore.WithDenyCache(-1)),
		core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}})
	assert.ErrorContains(t, err, "WithDenyCache: -1ns must not be negative")
}

// repeats returns a function that has a denial repeated.
func repeats(t testing.TB) func() {
	l, ctx := limittest.Limiter(t, cachedStore(t, time.Hour), "api", core.PerDay(1)), context.Background()
	for range 2 {
		_, err := l.Allow(ctx, "k")
		require.NoError(t, err)
	}
	return func() {
		if res, err := l.Allow(ctx, "k"); err != nil || res.Source != core.FromDenyCache {
			t.Error("premise: the denial is repeated", res.Source, err)
		}
	}
}

func TestCachedDenialCostsNoAllocation(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(1000, repeats(t)))
}

func BenchmarkCachedDenial(b *testing.B) {
	denial := repeats(b)
	b.ReportAllocs()
	for b.Loop() {
		denial()
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
	s := passedOn{cachedStore(t, time.Hour), new(atomic.Int64)}
	l := limittest.Limiter(t, s, "api", core.PerDay(1))
	for range 5 {
		_, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
	}
	assert.EqualValues(t, 5, s.n.Load())
	assert.EqualValues(t, 3, s.Stats().Denied, "the store repeats the denial")
}
