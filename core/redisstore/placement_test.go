package redisstore_test

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// router is a hook by which a client shares keys among servers as twemproxy
// does: it sends each command to the server of its first key, and refuses
// commands without a key.
type router struct {
	redistest.Hook

	servers []*redis.Client
}

func (r router) send(ctx context.Context, cmd redis.Cmder) error {
	at := map[string]int{"get": 1, "set": 1, "del": 1, "eval": 3, "evalsha": 3}[cmd.Name()]
	switch {
	case cmd.Name() == "ping":
		return nil
	case at == 0:
		cmd.SetErr(replied("ERR unknown command"))
		return cmd.Err()
	}
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, cmd.Args()[at])
	return r.servers[int(hash.Sum32())%len(r.servers)].Process(ctx, cmd)
}

func (r router) ProcessHook(redis.ProcessHook) redis.ProcessHook { return r.send }

func (r router) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		for _, cmd := range cmds {
			err = cmp.Or(err, r.send(ctx, cmd))
		}
		return err
	}
}

// A proxy that shares keys among servers sends a script to that of its first
// key, where the others have full buckets. So each call has one key there.
func TestAProxyOfSeveralServersGrantsWhatLimitsAllow(t *testing.T) {
	var lines logtest.Buffer
	client := redistest.Client(t)
	client.AddHook(router{servers: []*redis.Client{redistest.Start(t).Client(t), redistest.Start(t).Client(t)}})
	store := redisstore.New(client, longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	const keys, capacity = 16, 5
	l := limittest.Limiter(t, store, "api", core.PerDay(capacity))
	var granted [keys]atomic.Int64
	var all sync.WaitGroup
	for i := range keys * capacity * 4 {
		all.Go(func() {
			res, err := l.Allow(t.Context(), fmt.Sprint("k", i%keys))
			if err == nil && res.Allowed {
				granted[i%keys].Add(1)
			}
		})
	}
	all.Wait()
	for i := range granted {
		assert.Equal(t, int64(capacity), granted[i].Load(), "grants of key %d, of 4 times as many requests as its capacity", i)
	}

	one, other := limittest.Limiter(t, store, "one", core.PerDay(10)), limittest.Limiter(t, store, "other", core.PerDay(10))
	for i := range 20 {
		key := fmt.Sprint("joint", i)
		for range 11 {
			_, err := core.AllowTogether(t.Context(), core.Charge{Limiter: one, Key: key, Units: core.Units{core.Requests: 1}},
				core.Charge{Limiter: other, Key: key, Units: core.Units{core.Requests: 1}})
			require.NoError(t, err)
		}
		for _, l := range []*core.Limiter{one, other} {
			res, err := l.Peek(t.Context(), key)
			require.NoError(t, err)
			assert.Zero(t, res.Limits()[0].Remaining, "10 joint decisions took 10 tokens of each")
		}
	}
	assert.Equal(t, 1, lines.Count("RL723"), "it is warned of once: %s", lines.String())
	assert.Contains(t, lines.String(), "server=redis://"+redistest.Addr(t))
}

// A Redis is found to be one: nothing is said, and nothing is left there.
func TestARedisHasAllKeys(t *testing.T) {
	var lines logtest.Buffer
	server := redistest.Start(t)
	store, err := redisstore.Open("redis://"+server.Addr, longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	one, other := limittest.Limiter(t, store, "one", core.PerDay(10)), limittest.Limiter(t, store, "other", core.PerDay(10))
	_, err = core.AllowTogether(t.Context(), core.Charge{Limiter: one, Key: "a", Units: core.Units{core.Requests: 1}},
		core.Charge{Limiter: other, Key: "b", Units: core.Units{core.Requests: 1}})
	require.NoError(t, err)
	n, err := server.Client(t).DBSize(t.Context()).Result()
	require.NoError(t, err)
	assert.Equal(t, int64(2), n, "of the two buckets")
	assert.Empty(t, lines.String())
}
