package chaos_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// warm fills the client's pool with connections, so that a retry finds one. It
// tries again if the client's timeout is too short for a busy machine.
func warm(t *testing.T, c *redis.Client, conns int) {
	t.Helper()
	for deadline := time.Now().Add(wait); c.PoolStats().IdleConns < uint32(conns); {
		require.Less(t, time.Now(), deadline, "connections can be made")
		held := make([]*redis.Conn, conns)
		for i := range held {
			held[i] = c.Conn()
			_ = held[i].Ping(context.Background()).Err() // a connection that failed is dropped
		}
		for _, conn := range held {
			require.NoError(t, conn.Close())
		}
	}
}

// connected returns how many connections c's server has.
func connected(t *testing.T, c *redis.Client) string {
	t.Helper()
	info, err := c.InfoMap(context.Background(), "clients").Result()
	require.NoError(t, err)
	return info["Clients"]["connected_clients"]
}

// The server executes every command, and its replies are lost. Whatever the
// client's options are, one Allow must take one token.
func TestAllowTakesItsTokensAtMostOnce(t *testing.T) {
	server := redistest.Start(t)
	direct := server.Client(t)
	const conns, retries = 8, 3
	for _, c := range []struct {
		name           string
		readTimeout    time.Duration
		contextTimeout bool
	}{
		{"the client gives up first", 50 * time.Millisecond, false},
		{"the client gives up first, with ContextTimeoutEnabled", 50 * time.Millisecond, true},
		{"the store gives up first", time.Minute, false},
		{"the store gives up first, with ContextTimeoutEnabled", time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			others := connected(t, direct)
			proxy := faultproxy.New(t, server.Addr)
			client := redis.NewClient(&redis.Options{
				Addr: proxy.Addr, MaxRetries: retries, MinRetryBackoff: -1, MaxRetryBackoff: -1,
				ReadTimeout: c.readTimeout, ContextTimeoutEnabled: c.contextTimeout,
			})
			defer client.Close() // a second time does no harm
			warm(t, client, conns)
			prefix := redistest.Prefix()
			policy := core.Policy{Name: "once", Limits: []core.Limit{core.PerDay(1000)}, OnFailure: core.FailClosed}
			const timeout = 500 * time.Millisecond
			lossy := core.Must(core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(prefix), redisstore.WithTimeout(timeout)), policy))
			honest := core.Must(core.NewLimiter(redisstore.New(direct, redisstore.WithPrefix(prefix), patient), policy))
			_, err := honest.Peek(context.Background(), "script is cached now")
			require.NoError(t, err)

			proxy.Set(faultproxy.HalfOpen)
			if c.readTimeout < timeout {
				counter := fmt.Sprint(prefix, "premise")
				require.Error(t, client.Incr(context.Background(), counter).Err())
				require.Eventually(t, func() bool {
					n, _ := direct.Get(context.Background(), counter).Int()
					return n == 1+retries
				}, wait, tick, "premise: go-redis sends a plain command again")
			}
			_, err = lossy.Allow(context.Background(), "k")
			require.ErrorIs(t, err, core.ErrUnavailable)

			require.NoError(t, client.Close())
			require.Eventually(t, func() bool { return connected(t, direct) == others }, wait, tick,
				"premise: the server has executed everything once the client has no connection left")
			res, err := honest.Peek(context.Background(), "k")
			require.NoError(t, err)
			assert.Equal(t, int64(999), res.Remaining, "one Allow must take one token, however often its reply is lost")
		})
	}
}
