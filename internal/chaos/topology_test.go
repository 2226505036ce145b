// Package chaos plays outages, fail-overs and floods on real servers.
package chaos_test

import (
	"context"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func hostPort(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return host, port
}

// follow makes replica a replica of the server at master, and waits until it
// has loaded that server's data. WAIT does not wait for that: a write from
// before the replica came has the offset 0, which a replica confirms while it
// still loads.
func follow(t *testing.T, replica *redistest.Server, master string) {
	t.Helper()
	host, port := hostPort(t, master)
	client := replica.Client(t)
	require.NoError(t, client.ReplicaOf(context.Background(), host, port).Err())
	require.Eventually(t, func() bool {
		info, err := client.InfoMap(context.Background(), "replication").Result()
		return err == nil && info["Replication"]["master_link_status"] == "up"
	}, wait, tick, "the replica loads the master's data")
}

// limited returns a limiter over client whose buckets admit capacity tokens in
// a day.
func limited(t *testing.T, client redis.UniversalClient, mode core.FailureMode, options ...redisstore.Option) *core.Limiter {
	t.Helper()
	l, err := core.NewLimiter(redisstore.New(client, append(options, asking)...), core.Policy{
		Name: "topology", Limits: []core.Limit{core.PerDay(capacity)}, OnFailure: mode})
	require.NoError(t, err)
	return l
}

// decidesAgain waits until the store decides every key.
func decidesAgain(t *testing.T, l *core.Limiter, keys []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, key := range keys {
			if res, err := l.Peek(context.Background(), key); err != nil || res.Source != core.FromStore {
				return false
			}
		}
		return true
	}, 2*wait, 10*time.Millisecond, "recovery is automatic")
}

// watch starts Sentinels for master, which has one replica, and waits until
// they know each other and the replica.
func watch(t *testing.T, master *redistest.Server, sentinels int) (addrs []string) {
	t.Helper()
	ctx := context.Background()
	host, port := hostPort(t, master.Addr)
	var first *redis.SentinelClient
	for range sentinels {
		s := redistest.Start(t, "--sentinel")
		addrs = append(addrs, s.Addr)
		c := sentinelClient(t, s.Addr)
		require.NoError(t, c.Monitor(ctx, "limits", host, port, strconv.Itoa(sentinels/2+1)).Err())
		// A machine that pauses must not cause a failover before the master is
		// killed.
		require.NoError(t, c.Set(ctx, "limits", "down-after-milliseconds", "60000").Err())
		require.NoError(t, c.Set(ctx, "limits", "failover-timeout", "5000").Err())
		first = c
	}
	require.Eventually(t, func() bool {
		others, err := first.Sentinels(ctx, "limits").Result()
		replicas, err2 := first.Replicas(ctx, "limits").Result()
		return err == nil && err2 == nil && len(others) == sentinels-1 && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	}, wait, 10*time.Millisecond)
	return addrs
}

// noticeSoon makes Sentinels take a master for dead after half a second.
func noticeSoon(t *testing.T, sentinels []string) {
	t.Helper()
	for _, addr := range sentinels {
		require.NoError(t, sentinelClient(t, addr).Set(context.Background(), "limits", "down-after-milliseconds", "500").Err())
	}
}

func sentinelClient(t *testing.T, addr string) *redis.SentinelClient {
	t.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// cluster starts three masters with a replica each.
func cluster(t *testing.T) (servers []*redistest.Server, client *redis.ClusterClient) {
	t.Helper()
	servers = redistest.Cluster(t, 3, true, "--cluster-replica-validity-factor", "0")
	agreed(t, servers[0])
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return servers, client
}

// split is a Cluster whose masters serve their slots whatever becomes of the
// others.
func split(t *testing.T) (servers []*redistest.Server, client *redis.ClusterClient) {
	t.Helper()
	servers, client = cluster(t)
	for _, s := range servers {
		require.NoError(t, s.Client(t).ConfigSet(context.Background(), "cluster-require-full-coverage", "no").Err())
	}
	return servers, client
}

// oneNode starts a Cluster of one node, which has all slots.
func oneNode(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Cluster(t, 1, false)[0]
}

// agreed waits until all nodes have the same view of the cluster.
func agreed(t *testing.T, s *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		return exec.Command("redis-cli", "--cluster", "check", s.Addr).Run() == nil
	}, wait, 50*time.Millisecond)
}

// keysInFirstSlots returns keys whose buckets are in the first slots of the
// first master. A reshard moves these first.
func keysInFirstSlots(t *testing.T, s *redistest.Server, n int, slots int64) (names []string) {
	t.Helper()
	c := s.Client(t)
	for i := 0; len(names) < n; i++ {
		name := "key-" + strconv.Itoa(i)
		slot, err := c.ClusterKeySlot(context.Background(), "moving:topology:"+name).Result()
		require.NoError(t, err)
		if slot < slots {
			names = append(names, name)
		}
	}
	return names
}

func cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("redis-cli", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// masterIDs returns the masters' IDs, first that of the master of slot 0.
func masterIDs(t *testing.T, s *redistest.Server) (ids []string) {
	t.Helper()
	nodes, err := s.Client(t).ClusterNodes(context.Background()).Result()
	require.NoError(t, err)
	for line := range strings.SplitSeq(nodes, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 9 || !strings.Contains(fields[2], "master"):
		case strings.HasPrefix(fields[8], "0-"):
			ids = append([]string{fields[0]}, ids...)
		default:
			ids = append(ids, fields[0])
		}
	}
	return ids
}

// masterOf returns the server that holds key.
func masterOf(t *testing.T, servers []*redistest.Server, client *redis.ClusterClient, key string) *redistest.Server {
	t.Helper()
	node, err := client.MasterForKey(context.Background(), key)
	require.NoError(t, err)
	for _, s := range servers {
		if s.Addr == node.Options().Addr {
			return s
		}
	}
	t.Fatal("no server at", node.Options().Addr)
	return nil
}

// Under Sentinel each outage has a line at its beginning and at its end, also
// after another master has taken over.
func TestSentinelOutageIsLogged(t *testing.T) {
	beside(t)
	master, replica, sentinels := startWatchedPair(t, 1)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "limits", SentinelAddrs: sentinels, ContextTimeoutEnabled: true, DialerRetries: 1})
	defer client.Close()
	var lines logtest.Buffer
	store := redisstore.New(client, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1_000_000)}}))
	count := func(code string) int { return lines.Count("code=" + code) }
	until := func(rule string, done func() bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, err := l.Allow(context.Background(), "k")
			require.NoError(t, err)
			return done()
		}, 2*wait, 5*time.Millisecond, rule)
	}
	until("premise: Redis decides", func() bool {
		res, err := l.Allow(context.Background(), "k")
		return err == nil && res.Source == core.FromStore
	})
	master.Pause() // it accepts connections, and does not answer
	until("the outage is logged", func() bool { return count("RL712") == 1 })
	assert.Contains(t, lines.String(), `server="the master that Sentinel names"`)
	require.ErrorContains(t, store.Ping(context.Background()), "the master that Sentinel names", "Ping says which server does not answer")
	noticeSoon(t, sentinels)
	until("its end is logged", func() bool { return count("RL713") == 1 })
	replica.Kill()
	until("the next outage is logged", func() bool { return count("RL712") == 2 })
	master.Resume()
}
