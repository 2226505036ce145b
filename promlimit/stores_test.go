package promlimit_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// busy is a store that reports another number for everything.
type busy struct{}

func (busy) Stats() storestats.Stats {
	return storestats.Stats{
		Breaker: storestats.BreakerOpen, Opened: 3, Away: 4500 * time.Millisecond,
		Calls: 5, Decisions: 6, Batches: [storestats.BatchSizes]int64{4, 1}, Denied: 7, Leased: 8, Unreadable: 9,
		Exceptions: []storestats.Exceptions{{Policy: "api", Overrides: 10, Blocks: 11, Version: 1_772_452_800_123_456, Age: 1500 * time.Millisecond}},
	}
}

func TestStoresAreExposed(t *testing.T) {
	values := scrape(t, promlimit.New(promlimit.WithRedisStore("main", busy{})), "ratelimit_")
	for series, want := range map[string]float64{
		`ratelimit_batch_size_bucket{store="main",le="1"}`: 4, `ratelimit_batch_size_bucket{store="main",le="2"}`: 5,
		`ratelimit_batch_size_bucket{store="main",le="512"}`: 5, `ratelimit_batch_size_bucket{store="main",le="+Inf"}`: 5,
		`ratelimit_batch_size_count{store="main"}`: 5, `ratelimit_batch_size_sum{store="main"}`: 6,
		`ratelimit_breaker_opened_total{store="main"}`: 3, `ratelimit_breaker_state{store="main"}`: 2,
		`ratelimit_deny_cache_hits_total{store="main"}`:                   7,
		`ratelimit_exceptions_age_seconds{policy="api",store="main"}`:     1.5,
		`ratelimit_exceptions_version{policy="api",store="main"}`:         1_772_452_800_123_456,
		`ratelimit_exceptions{kind="block",policy="api",store="main"}`:    11,
		`ratelimit_exceptions{kind="override",policy="api",store="main"}`: 10,
		`ratelimit_fallback_seconds_total{store="main"}`:                  4.5,
		`ratelimit_leased_decisions_total{store="main"}`:                  8,
		`ratelimit_unreadable_total{store="main"}`:                        9,
	} {
		assert.InDelta(t, want, values[series], 0, series)
	}
	assert.Len(t, values, 16+7, "and the buckets between 2 and 512")
}

func TestScrapeCountsCallsToRedis(t *testing.T) {
	store := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(10*time.Second), redisstore.WithLease(10),
		core.WithClock(func() time.Time { return time.Unix(1_800_000_000, 0) })) // stands still, so the key stays busy on a slow machine
	metrics := promlimit.New(promlimit.WithRedisStore("main", store))
	limit := core.Limit{Name: "l", Capacity: 100, RefillRate: 1, RefillInterval: 24 * time.Hour}
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{limit}}, core.WithObserver(metrics.Observe)))
	for range 120 {
		_, err := limiter.Allow(t.Context(), "ann")
		require.NoError(t, err)
	}
	values := scrape(t, metrics, "ratelimit_")
	decisions := func(outcome, source string) float64 {
		return values[`ratelimit_decisions_total{limit="l",outcome="`+outcome+`",policy="api",source="`+source+`"}`]
	}
	assert.InDelta(t, decisions("allowed", "lease"), values[`ratelimit_leased_decisions_total{store="main"}`], 0)
	assert.InDelta(t, decisions("denied", "deny-cache"), values[`ratelimit_deny_cache_hits_total{store="main"}`], 0)
	assert.InDelta(t, 100, decisions("allowed", "lease")+decisions("allowed", "store"), 0)
	assert.Positive(t, values[`ratelimit_batch_size_count{store="main"}`])
	assert.InDelta(t, values[`ratelimit_batch_size_count{store="main"}`], values[`ratelimit_batch_size_bucket{store="main",le="1"}`], 0,
		"requests one after another are in separate calls")
	assert.InDelta(t, float64(store.Stats().Decisions), values[`ratelimit_batch_size_sum{store="main"}`], 0)
}

// The test kills the store's server and starts it again.
func TestScrapeShowsAnOutage(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithTimeout(20*time.Second), redisstore.WithBreaker(1, time.Millisecond))
	metrics := promlimit.New(promlimit.WithRedisStore("main", store))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1_000_000)}}, core.WithObserver(metrics.Observe)))
	ask := func() (state, opened, away float64) {
		t.Helper()
		_, err := limiter.Allow(t.Context(), "ann")
		require.NoError(t, err, "while the server is away the process decides by itself")
		values := scrape(t, metrics, "ratelimit_")
		return values[`ratelimit_breaker_state{store="main"}`], values[`ratelimit_breaker_opened_total{store="main"}`], values[`ratelimit_fallback_seconds_total{store="main"}`]
	}
	state, opened, away := ask()
	assert.Zero(t, state+opened+away)

	server.Kill()
	state, opened, away = ask()
	assert.Positive(t, state)
	assert.InDelta(t, 1, opened, 0)
	assert.Positive(t, away)
	assert.InDelta(t, 1, sum(scrape(t, metrics, `ratelimit_decisions_total{limit="api",outcome="allowed",policy="api",source="fallback"}`)), 0)

	server.Restart(t)
	require.Eventually(t, func() bool {
		state, opened, away = ask()
		return state == 0
	}, 20*time.Second, time.Millisecond, "the breaker closes when the server is back")
	assert.InDelta(t, 1, opened, 0, "an outage is counted once")
	_, _, later := ask()
	assert.InDelta(t, away, later, 0, "the time of the outage no longer grows")
}
