package otellimit_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/otellimit"
)

// The test kills the store's server and starts it again.
func TestMetricsShowAnOutage(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithTimeout(20*time.Second), redisstore.WithBreaker(1, time.Millisecond))
	s := serve(t, store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1_000_000)}}, nil, otellimit.WithRedisStore("main", store))
	value := func(name string) float64 {
		v, ok := collect(t, s.metrics)[name+"{ratelimit.store=main}"]
		assert.True(t, ok, name)
		return v
	}
	_, _ = s.get(t, "ann")
	assert.Zero(t, value("ratelimit.breaker.state"))
	assert.Zero(t, value("ratelimit.breaker.opened"))
	assert.Zero(t, value("ratelimit.fallback"))
	assert.Positive(t, value("ratelimit.redis.calls"))
	assert.InDelta(t, value("ratelimit.redis.calls"), value("ratelimit.redis.decisions"), 0)
	assert.Zero(t, value("ratelimit.deny_cache.hits"))
	assert.Zero(t, value("ratelimit.leased.decisions"))

	server.Kill()
	status, span := s.get(t, "ann")
	assert.Equal(t, http.StatusOK, status, "the process decides by itself")
	require.Len(t, span.Events, 1)
	assert.Contains(t, span.Events[0].Attributes, attribute.String("ratelimit.source", "fallback"))
	assert.Contains(t, span.Events[0].Attributes, attribute.String("error.type", "unavailable"))
	assert.Positive(t, value("ratelimit.breaker.state"))
	assert.InDelta(t, 1, value("ratelimit.breaker.opened"), 0)
	assert.Positive(t, value("ratelimit.fallback"))

	server.Restart(t)
	require.Eventually(t, func() bool {
		_, _ = s.get(t, "ann")
		return value("ratelimit.breaker.state") == 0
	}, 20*time.Second, time.Millisecond, "the breaker closes when the server is back")
	outage := value("ratelimit.fallback")
	assert.InDelta(t, outage, value("ratelimit.fallback"), 0, "the time of the outage no longer grows")
}

// Two Telemetry values that watch a store under one name would report it twice,
// so the first one is closed.
func TestCloseStopsReadingStores(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithTimeout(10*time.Second), redisstore.WithBreaker(1, time.Hour))
	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}})
	require.NoError(t, err)
	_, err = limiter.Allow(context.Background(), "k")
	require.NoError(t, err)
	require.Equal(t, int64(1), store.Stats().Opened, "the premise: the breaker opened")

	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	first, err := otellimit.New(otellimit.WithMeterProvider(provider), otellimit.WithRedisStore("main", store))
	require.NoError(t, err)
	const opened = "ratelimit.breaker.opened{ratelimit.store=main}"
	assert.InDelta(t, 1, collect(t, reader)[opened], 0)
	require.NoError(t, first.Close())
	assert.NotContains(t, collect(t, reader), opened)
	require.NoError(t, first.Close(), "a second Close does nothing")

	second, err := otellimit.New(otellimit.WithMeterProvider(provider), otellimit.WithRedisStore("main", store))
	require.NoError(t, err)
	assert.InDelta(t, 1, collect(t, reader)[opened], 0, "counted once")
	first.Observe(context.Background(), core.Observation{Policy: "api"})
	second.Observe(context.Background(), core.Observation{Policy: "api"})
	decisions := 0.0
	for name, value := range collect(t, reader) {
		if strings.HasPrefix(name, "ratelimit.decisions{") {
			decisions += value
		}
	}
	assert.InDelta(t, 2, decisions, 0, "a closed Telemetry still measures decisions")

	none, err := otellimit.New(otellimit.WithMeterProvider(provider))
	require.NoError(t, err)
	assert.NoError(t, none.Close(), "Close works without stores")
}
