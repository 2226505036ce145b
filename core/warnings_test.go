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

// infoHook sees INFO, which the store sends to read the eviction policy.
type infoHook struct {
	redistest.Hook

	asked  chan struct{} // it has been answered
	panics bool          // it was not made for INFO
}

func (h infoHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "info" {
			return next(ctx, cmd)
		}
		defer func() { h.asked <- struct{}{} }()
		if h.panics {
			panic("a hook that knows no INFO")
		}
		return next(ctx, cmd)
	}
}

// evicting is a limiter on a new store of a client.
func evicting(t *testing.T, client redis.UniversalClient) *core.Limiter {
	t.Helper()
	t.Cleanup(func() { _ = client.Close() })
	return limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(20*time.Second)), "api", core.PerDay(10))
}

func TestEvictionPolicyThatDropsBucketsWarnsOnce(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	l := logtest.Default(t)
	want := 0
	for _, c := range []struct {
		policy, memory string
		warned         bool
	}{
		{"noeviction", "100mb", false},
		{"allkeys-lru", "0", false}, // never full
		{"allkeys-lru", "100mb", true},
		{"volatile-random", "100mb", true}, // every bucket has a TTL
		{"volatile-ttl", "100mb", true},    // a bucket has the nearest end
	} {
		require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory-policy", c.policy).Err())
		require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", c.memory).Err())
		client, hook := server.Client(t), infoHook{asked: make(chan struct{}, 10)}
		client.AddHook(hook)
		limiter := evicting(t, client)
		for range 3 {
			allow(t, limiter, 1)
		}
		<-hook.asked
		if c.warned {
			want++
			require.Eventually(t, func() bool { return l.Count("maxmemory-policy=") == want }, time.Minute, time.Millisecond, c.policy)
		}
		assert.Empty(t, hook.asked, "the server is asked once")
	}
	assert.Equal(t, want, l.Count("maxmemory-policy="), "a server that evicts nothing, or is never full, is no reason to warn")
}

func TestPanicInAHookDuringTheEvictionCheckIsRecovered(t *testing.T) {
	client, hook := redistest.Client(t), infoHook{asked: make(chan struct{}, 10), panics: true}
	client.AddHook(hook)
	limiter := evicting(t, client)
	allow(t, limiter, 1)
	<-hook.asked
	allow(t, limiter, 1)
}

// Any one server of several may have the eviction policy.
func TestEvictionPolicyOfEveryServerIsChecked(t *testing.T) {
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
			if topology.arguments != nil {
				unite(t, servers)
			}
			for _, s := range servers { // each in turn
				l := logtest.Default(t)
				admin := s.Client(t)
				require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
				require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
				allow(t, evicting(t, topology.client([]string{servers[0].Addr, servers[1].Addr})), 1)
				require.Eventually(t, func() bool { return l.Count("server=redis://"+s.Addr) == 1 }, time.Minute, time.Millisecond, "the warning names the server")
				assert.Equal(t, 1, l.Count("maxmemory-policy="))
				require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
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
