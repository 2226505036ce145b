package redisstore_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// onMiniredis returns a client of a server in this process, whose Lua has no
// struct library.
func onMiniredis(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute}) // its Lua is slow
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

func TestStoreOnMiniredisConforms(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) core.Store {
		_, client := onMiniredis(t)
		return redisstore.New(client, core.WithClock(clock), longTimeout)
	})
}

// A store learns once that a server lacks struct.
func TestStandInIsSentOnce(t *testing.T) {
	_, client := onMiniredis(t)
	var sent []string
	client.AddHook(redisstore.Hook{Of: "eval", Do: func(cmd redis.Cmder, send func() error) error {
		sent = append(sent, cmd.Name())
		return send()
	}})
	l := limittest.Limiter(t, redisstore.New(client, longTimeout, redisstore.WithDenyCache(0)), "api", core.PerDay(2))
	for i, want := range [][]string{
		{"evalsha", "eval", "eval"}, // not known; known, but lacks struct; with the stand-in
		{"evalsha"},
		{"evalsha"},
	} {
		sent = nil
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, i < 2, res.Allowed)
		assert.Equal(t, core.FromStore, res.Source)
		assert.Equal(t, want, sent)
	}
	client.ScriptFlush(t.Context())
	sent = nil
	_, err := l.Allow(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, []string{"evalsha", "eval"}, sent, "what is loaded again is the stand-in")
}

// SetTime moves the clock that decides. FastForward only lets keys expire.
func TestClockOfMiniredisMovesBuckets(t *testing.T) {
	server, client := onMiniredis(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	server.SetTime(now)
	l := limittest.Limiter(t, redisstore.New(client, longTimeout, redisstore.WithDenyCache(0)), "api", core.PerMinute(1))
	allowed := func() bool {
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		return res.Allowed
	}
	require.True(t, allowed())
	require.False(t, allowed())
	server.FastForward(30 * time.Second)
	require.False(t, allowed())
	server.SetTime(now.Add(time.Minute - time.Microsecond))
	require.False(t, allowed())
	server.SetTime(now.Add(time.Minute))
	require.True(t, allowed())
}
