package core_test

import (
	"context"
	"log/slog"
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

// logged holds what slog's default logger wrote.
type logged struct{ logtest.Buffer }

func (l *logged) count(part string) int { return strings.Count(l.String(), part) }

// logs replaces the default logger until the test ends; such tests can't be parallel.
func logs(t *testing.T) *logged {
	t.Helper()
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	l := &logged{}
	slog.SetDefault(slog.New(slog.NewTextHandler(l, nil)))
	return l
}

func forwardedFor(values ...string) func(string) []string {
	return func(name string) []string {
		if name == "X-Forwarded-For" {
			return values
		}
		return nil
	}
}

func TestUntrustedProxyWarnsOnce(t *testing.T) {
	l := logs(t)
	c := core.Must(core.NewClientIP())
	for range 3 {
		_, err := c.Key("192.0.2.1:1", forwardedFor("203.0.113.5"))
		require.NoError(t, err)
	}
	assert.Equal(t, 1, l.count("core.TrustProxies"), "the warning says what to do, once")
}

// A proxy whose address is outside the trusted ranges sends what ByIP would read from a trusted one. Without a warning all
// its clients share a bucket, and nobody knows.
func TestPeerOutsideTheTrustedRangesWarnsOnceWithPeerAndHeader(t *testing.T) {
	for _, x := range []struct {
		field   string
		options []core.IPOption
	}{
		{"X-Forwarded-For", []core.IPOption{core.TrustProxies("10.0.0.0/8")}},
		{"Forwarded", []core.IPOption{core.TrustProxies("10.0.0.0/8"), core.TrustForwarded()}},
		{"CF-Connecting-IP", []core.IPOption{core.TrustProxies("10.0.0.0/8"), core.TrustHeader("CF-Connecting-IP")}},
		{"X-Forwarded-For", []core.IPOption{core.TrustUnixSocket()}},
		{"X-Forwarded-For", nil},
		{"Forwarded", nil},
	} {
		l := logs(t)
		c := core.Must(core.NewClientIP(x.options...))
		send := func(peer string) {
			t.Helper()
			_, err := c.Key(peer, func(name string) []string {
				if name == x.field {
					return []string{"for=203.0.113.5"}
				}
				return nil
			})
			require.NoError(t, err)
		}
		if len(x.options) > 1 {
			send("10.0.0.1:1")
			assert.Zero(t, l.count("RL701"), "%s from a trusted proxy", x.field)
		}
		for range 3 {
			send("192.0.2.1:1")
			send("192.0.2.2:1")
		}
		assert.Equal(t, 1, l.count("RL701"), "%s from a peer that is not trusted is warned of, once", x.field)
		assert.Equal(t, 1, l.count("peer=192.0.2.1 header="+x.field+"\n"), "the warning has the peer and the header: %s", l.String())
	}
}

func TestTrustWithoutAProxyWarns(t *testing.T) {
	for name, option := range map[string]core.IPOption{"TrustHeader": core.TrustHeader("CF-Connecting-IP"), "TrustForwarded": core.TrustForwarded()} {
		l := logs(t)
		core.Must(core.NewClientIP(option))
		assert.Equal(t, 1, l.count(name+" has no effect"))
		for _, proxy := range []core.IPOption{core.TrustProxies("10.0.0.0/8"), core.TrustUnixSocket()} {
			core.Must(core.NewClientIP(option, proxy))
		}
		assert.Equal(t, 1, l.count("RL702"), "%s with a proxy", name)
	}
}

// A look at each request would cost too much, but a proxy may come in front of a service that runs for long.
func TestUntrustedProxyWarnsAfterManyRequestsWithoutOne(t *testing.T) {
	l := logs(t)
	c := core.Must(core.NewClientIP())
	for i := range 20_000 {
		forwarded := forwardedFor()
		if i >= 10_000 {
			forwarded = forwardedFor("203.0.113.5")
		}
		_, err := c.Key("192.0.2.1:1", forwarded)
		require.NoError(t, err)
	}
	assert.Equal(t, 1, l.count("core.TrustProxies"))
}

func TestTrustingEveryAddressWarns(t *testing.T) {
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		l := logs(t)
		core.Must(core.NewClientIP(core.TrustProxies("10.0.0.0/8", all)))
		assert.Equal(t, 1, l.count("trusts every address"), all)
	}
}

func TestEvictionPolicyThatDropsBucketsWarnsOnce(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	ctx := context.Background()
	l := logs(t)
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
			_, err := limiter.Allow(ctx, "k")
			require.NoError(t, err)
		}
		<-asked.asked
		if c.warned {
			want++
			require.Eventually(t, func() bool { return l.count("maxmemory-policy=") == want }, 10*time.Second, time.Millisecond, c.policy)
		}
		assert.Empty(t, asked.asked, "the server is asked once")
	}
	assert.Equal(t, want, l.count("maxmemory-policy="), "a server that evicts nothing, or is never full, is no reason to warn")
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
				l := logs(t)
				admin := s.Client(t)
				require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "100mb").Err())
				require.NoError(t, admin.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
				client := topology.client(addrs)
				defer client.Close()
				limiter := core.Must(core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(20*time.Second)),
					core.Policy{Name: "p", Limits: []core.Limit{core.PerMinute(5)}}))
				_, err := limiter.Allow(ctx, "k")
				require.NoError(t, err)
				require.Eventually(t, func() bool { return l.count("server=redis://"+s.Addr) == 1 }, 10*time.Second, time.Millisecond, "the warning names the server")
				assert.Equal(t, 1, l.count("maxmemory-policy="))
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
