package redisstore_test

import (
	"context"
	"net"
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

// opened returns a store of Open on url.
func opened(t *testing.T, url string, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	store, err := redisstore.Open(url, options...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// fails checks that Ping returns ErrUnavailable with these words, and nothing
// secret.
func fails(t *testing.T, store *redisstore.Store, words ...string) {
	t.Helper()
	err := store.Ping(t.Context())
	require.ErrorIs(t, err, core.ErrUnavailable)
	for _, w := range words {
		assert.ErrorContains(t, err, w)
	}
	assert.NotContains(t, err.Error(), "secret", "Ping must not show the password")
}

// silentServer returns the address of a server that answers nothing.
func silentServer(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestPingSucceedsAndLeavesNothing(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr, "b": redistest.Start(t).Addr}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, store := range map[string]*redisstore.Store{
		"Open": opened(t, "redis://"+server.Addr, longTimeout), "New": redisstore.New(client, longTimeout), "Ring": redisstore.New(ring, longTimeout),
		"a clock": redisstore.New(client, core.WithClock(limittest.NewClock().Now), longTimeout),
	} {
		for range 2 {
			assert.NoError(t, store.Ping(t.Context()), "%s: Ping of a server that is well", name)
		}
	}
	assert.Empty(t, client.Keys(t.Context(), "*").Val(), "Ping deletes its keys")
}

// Ping does all that decisions and Reset do, so it needs all rights that these
// need.
func TestPingFindsEachRightThatIsMissing(t *testing.T) {
	server := redistest.Start(t)
	admin, ctx := server.Client(t), t.Context()
	if redistest.Major(t, admin) < 7 {
		t.Skip("Redis 6 has other texts")
	}
	store := opened(t, "redis://limiter:secret@"+server.Addr, longTimeout)
	grant := func(rules ...any) {
		t.Helper()
		args := append([]any{"acl", "setuser", "limiter", "reset", "on", ">secret", "~ratelimit:*", "-@all", "+@connection"}, rules...)
		require.NoError(t, admin.Do(ctx, args...).Err())
		admin.Do(ctx, "client", "kill", "user", "limiter")
	}
	rights := []any{"+evalsha", "+eval", "+get", "+set", "+setrange", "+zadd", "+zrem", "+zrange", "+zrangebyscore", "+zremrangebyscore", "+zscore", "+pexpire", "+del", "+time"}
	grant(rights...)
	require.NoError(t, store.Ping(ctx), "with all rights")
	for i, right := range rights {
		grant(append(append([]any{}, rights[:i]...), rights[i+1:]...)...)
		assert.ErrorContains(t, store.Ping(ctx), "Redis refuses this user a command or a key", "without %v", right)
	}
	grant(append(rights, "resetkeys", "~other:*")...)
	fails(t, store, "redis://"+server.Addr, "Redis refuses this user a command or a key")
	admin.Do(ctx, "acl", "setuser", "limiter", "reset", "on", ">other")
	admin.Do(ctx, "client", "kill", "user", "limiter")
	fails(t, store, "redis://"+server.Addr, "Redis refuses the password or the user", "WRONGPASS")
}

func TestPingSaysWhatIsWrong(t *testing.T) {
	silent := silentServer(t)
	fails(t, opened(t, "redis://127.0.0.1:1"), "redis://127.0.0.1:1: Redis does not answer: dial tcp 127.0.0.1:1: connect: connection refused")
	fails(t, opened(t, "rediss://u:secret@127.0.0.1:1"), "rediss://127.0.0.1:1: Redis does not answer: dial tcp 127.0.0.1:1: connect: connection refused")
	fails(t, opened(t, "unix:///none.sock"), "unix:///none.sock", "no such file")
	fails(t, opened(t, "redis://"+silent), "redis://"+silent+": Redis does not answer")

	server := redistest.Start(t)
	store := opened(t, "redis://"+server.Addr, longTimeout)
	admin := server.Client(t)
	fails(t, opened(t, "redis://"+server.Addr+"/99", longTimeout), "Redis answers with an error", "DB index")
	admin.ConfigSet(t.Context(), "requirepass", "other")
	fails(t, opened(t, "redis://"+server.Addr, longTimeout), "Redis refuses the password or the user", "NOAUTH")
	admin.Do(t.Context(), "auth", "other")
	admin.ConfigSet(t.Context(), "requirepass", "")
	admin.ConfigSet(t.Context(), "maxmemory", "1")
	fails(t, store, "the memory of Redis is full", "OOM")
	admin.ConfigSet(t.Context(), "maxmemory", "0")
	admin.Do(t.Context(), "replicaof", "127.0.0.1", "1")
	fails(t, store, "this Redis is a replica", "READONLY")
	admin.Do(t.Context(), "replicaof", "no", "one")
	require.NoError(t, store.Ping(t.Context()), "after that")
	server.Kill()
	fails(t, store, "redis://"+server.Addr+": Redis does not answer")

	require.ErrorContains(t, redisstore.New(admin, redisstore.WithTimeout(0)).Ping(t.Context()), "RL304", "a mistake in the options")
}

// One shard that does not answer is enough, and the error names it.
func TestPingNamesTheShardThatDoesNotAnswer(t *testing.T) {
	one, other := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": one.Addr, "b": other.Addr}, HeartbeatFrequency: time.Hour, DialerRetries: 1})
	t.Cleanup(func() { _ = ring.Close() })
	store := redisstore.New(ring, longTimeout)
	other.Kill()
	fails(t, store, "redis://"+other.Addr+": Redis does not answer", "refused")
}

// Ping returns when its context ends, whatever the client does, and says so.
func TestPingEndsWithItsContext(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: silentServer(t), ReadTimeout: time.Hour})
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithTimeout(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- store.Ping(ctx) }()
	cancel()
	select {
	case err := <-done:
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, core.ErrUnavailable)
	case <-time.After(time.Minute):
		t.Error("Ping returns when its context ends")
	}
}

// The breaker does not keep Ping from the server, and Ping opens none.
func TestPingAndBreakerLeaveEachOtherAlone(t *testing.T) {
	client, broken := breakable(t)
	broken.Store(true)
	store := storeOn(client, redisstore.WithBreaker(1, time.Hour))
	fails(t, store, "calls to Redis fail")
	assert.Zero(t, store.Stats().Opened, "Ping opens no breaker")
	_, err := limittest.Limiter(t, store, "api", core.PerDay(1)).Allow(t.Context(), "k")
	require.Error(t, err, "premise: decisions fail")
	broken.Store(false)
	require.NoError(t, store.Ping(t.Context()), "the breaker is open, and Redis is well")
}
