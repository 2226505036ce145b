package core_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestEvictionPolicyThatDropsBucketsWarnsOnce(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	ctx := context.Background()
	l := logtest.Default(t)
	want := 0
	for _, c := range []struct {
		policy, memory string
		warned         bool
	}{
		{"noeviction", "100mb", false},
		{"allkeys-lru", "0", false}, // never full
		{"allkeys-lru", "100mb", true},
		{"allkeys-lfu", "100mb", true},
		{"allkeys-random", "100mb", true},
		{"volatile-lru", "100mb", true}, // every bucket has a TTL
		{"volatile-lfu", "100mb", true},
		{"volatile-random", "100mb", true},
		{"volatile-ttl", "100mb", true}, // a bucket has the nearest end
	} {
		require.NoError(t, admin.ConfigSet(ctx, "maxmemory-policy", c.policy).Err())
		require.NoError(t, admin.ConfigSet(ctx, "maxmemory", c.memory).Err())
		asked := infoHook{asked: make(chan struct{}, 10)}
		client := server.Client(t)
		client.AddHook(asked)
		limiter := core.Must(core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(20*time.Second)),
			core.Policy{Name: "p", Limits: []core.Limit{core.PerMinute(5)}}))
		for range 3 {
			core.Must(limiter.Allow(ctx, "k"))
		}
		<-asked.asked
		if c.warned {
			want++
			require.Eventually(t, func() bool { return l.Count("maxmemory-policy=") == want }, time.Minute, time.Millisecond, c.policy)
		}
		assert.Empty(t, asked.asked, "the server is asked once")
	}
	assert.Equal(t, want, l.Count("maxmemory-policy="), "a server that evicts nothing, or is never full, is no reason to warn")
}

// Any one server of several may have the eviction policy.
func TestEvictionPolicyOfEveryServerIsChecked(t *testing.T) {
	ctx := context.Background()
	for name, topology := range map[string]struct {
		arguments []string
		client    func(addrs []string) redis.UniversalClient
	}{
		"Ring": {nil, func(addrs []string) redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addrs[0], "b": addrs[1]}})
		}},
		"Cluster": {[]string{"--cluster-enabled", "yes"}, func(addrs []string) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			servers := []*redistest.Server{redistest.Start(t, topology.arguments...), redistest.Start(t, topology.arguments...)}
			addrs := []string{servers[0].Addr, servers[1].Addr}
			if topology.arguments != nil {
				unite(t, servers)
			}
			for _, s := range servers { // each in turn
				l := logtest.Default(t)
				admin := s.Client(t)
				require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "100mb").Err())
				require.NoError(t, admin.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
				client := topology.client(addrs)
				defer client.Close()
				limiter := core.Must(core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(20*time.Second)),
					core.Policy{Name: "p", Limits: []core.Limit{core.PerMinute(5)}}))
				core.Must(limiter.Allow(ctx, "k"))
				require.Eventually(t, func() bool { return l.Count("server=redis://"+s.Addr) == 1 }, time.Minute, time.Millisecond, "the warning names the server")
				assert.Equal(t, 1, l.Count("maxmemory-policy="))
				require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "0").Err())
			}
		})
	}
}

// unite makes a Cluster of two servers.
func unite(t *testing.T, servers []*redistest.Server) {
	t.Helper()
	ctx := context.Background()
	one, other := servers[0].Client(t), servers[1].Client(t)
	require.NoError(t, one.ClusterAddSlotsRange(ctx, 0, 8191).Err())
	require.NoError(t, other.ClusterAddSlotsRange(ctx, 8192, 16383).Err())
	require.NoError(t, other.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", 2).Err())
	host, port, err := net.SplitHostPort(servers[1].Addr)
	require.NoError(t, err)
	require.NoError(t, one.ClusterMeet(ctx, host, port).Err())
	for _, c := range []*redis.Client{one, other} {
		require.Eventually(t, func() bool {
			info := c.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_size:2")
		}, 20*time.Second, 10*time.Millisecond)
	}
}

// frailHook panics on INFO, which the store sends to read the eviction policy.
type frailHook struct {
	redistest.Hook

	asked chan struct{}
}

func (h frailHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "info" {
			defer close(h.asked)
			panic("a hook that knows no INFO")
		}
		return next(ctx, cmd)
	}
}

func TestPanicInAHookDuringTheEvictionCheckIsRecovered(t *testing.T) {
	client, hook := redistest.Client(t), frailHook{asked: make(chan struct{})}
	client.AddHook(hook)
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(20*time.Second)), "api", core.PerDay(10))
	limittest.Use(t, l, "user", 1)
	<-hook.asked
	limittest.Use(t, l, "user", 1)
}

// infoHook reports that INFO has been answered.
type infoHook struct {
	redistest.Hook

	asked chan struct{}
}

func (h infoHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "info" {
			h.asked <- struct{}{}
		}
		return err
	}
}
