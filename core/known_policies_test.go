package core_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

func TestPolicyNameReusedWithOtherLimitsWarnsOnce(t *testing.T) {
	const warning = "same policy name and different limits"
	for name, store := range map[string]core.Store{
		"MemoryStore": core.NewMemoryStore(),
		"RedisStore":  redisstore.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			logger := core.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
			policy := func(name string, n int) core.Policy {
				return core.Policy{Name: name, Limits: []core.Limit{core.PerMinute(n)}}
			}
			l := core.Must(core.NewLimiter(store, policy("api", 50), logger))
			core.Must(core.NewLimiter(store, policy("api", 50), logger))
			core.Must(core.NewLimiter(store, policy("other", 5), logger))
			core.Must(l.WithLimits(core.PerMinute(5)))
			require.NoError(t, l.SetPolicy(policy("api", 20)))
			core.Must(core.NewLimiter(store, policy("api", 20), logger))
			assert.Empty(t, log.String(), "no warning for the same limits, another name, WithLimits and SetPolicy")
			core.Must(core.NewLimiter(store, policy("api", 5), logger))
			core.Must(core.NewLimiter(store, policy("api", 6), logger))
			assert.Equal(t, 1, strings.Count(log.String(), warning), log.String())
			assert.Contains(t, log.String(), "5/min")
			assert.Contains(t, log.String(), "20/min")
		})
	}
}
