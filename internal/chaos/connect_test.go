package chaos_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// Making a connection takes up to seven round trips, which is longer than a
// decision's timeout. Each server of a Ring or a Cluster has connections of its
// own, and more for pipelines.
func TestConnectionsAreMadeToADistantServer(t *testing.T) {
	cert, key, pool := redistest.Certificate(t)
	port, err := redistest.FreePort()
	require.NoError(t, err)
	server := redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	node := oneNode(t)
	latencies := []time.Duration{40 * time.Millisecond}
	if soak.On() {
		latencies = append(latencies, 10*time.Millisecond, 90*time.Millisecond)
	}
	secure := func(minds bool) func(*faultproxy.Proxy) redis.UniversalClient {
		return func(proxy *faultproxy.Proxy) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: minds,
				TLSConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}})
		}
	}
	clients := append(slices.Clone(proxiedClients),
		proxiedClient{name: "TLS", open: secure(false)}, proxiedClient{name: "TLS, ContextTimeoutEnabled", open: secure(true)})
	for _, latency := range latencies {
		for _, c := range clients {
			t.Run(fmt.Sprint(latency, " ", c.name), func(t *testing.T) {
				t.Parallel() // they mostly wait
				target := server.Addr
				switch {
				case c.cluster:
					target = node.Addr
				case strings.HasPrefix(c.name, "TLS"):
					target = net.JoinHostPort("127.0.0.1", port)
				}
				proxy := faultproxy.New(t, target)
				client := c.open(proxy)
				t.Cleanup(func() { _ = client.Close() })
				// As close to the round trip as 100 ms are to 90 on an idle
				// machine.
				store := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(latency+slack()))
				l := core.Must(core.NewLimiter(store, core.Policy{Name: "far", Limits: []core.Limit{core.PerDay(1_000_000)}}))

				proxy.SetLatency(latency)
				served(t, l, "from the first connection on")
				names := keyNames(64)
				require.Eventually(t, func() bool { return allDecided(l, names) }, 2*wait, tick, "and many at once")
				proxy.Set(faultproxy.Reset)
				require.Eventually(t, func() bool {
					_, err := l.Allow(context.Background(), "k")
					require.NoError(t, err)
					return store.Stats().Breaker != storestats.BreakerClosed
				}, wait, tick, "premise: the breaker opens")
				proxy.SetLatency(latency)
				served(t, l, "after an outage")
			})
		}
	}
}

// slack is how much longer than the round trip a decision may take here. Busy
// machines need more.
func slack() time.Duration {
	if *reportFile != "" {
		return 10 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// served waits until Redis decides, ten times in a row.
func served(t *testing.T, l *core.Limiter, when string) {
	t.Helper()
	began := time.Now()
	inRow := 0
	require.Eventually(t, func() bool {
		res, err := l.Allow(context.Background(), "k")
		require.NoError(t, err)
		if inRow++; res.Source != core.FromStore {
			inRow = 0
		}
		return inRow == 10
	}, 2*wait, tick, when)
	t.Logf("%s: %v", when, time.Since(began))
	if *reportFile != "" {
		require.Less(t, time.Since(began), 2*time.Second+10*timeout, "promise: within 2 s, and the ten decisions")
	}
}

// A client that is new to a Cluster may ask the server that hangs where keys
// are. Then it asks others. Each asks the addresses in a random order.
func TestNewClientOfAClusterWithAServerThatHangs(t *testing.T) {
	beside(t)
	one, hung := oneNode(t), redistest.Start(t)
	hung.Pause()
	t.Cleanup(hung.Resume)
	for range 5 {
		newcomer := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{hung.Addr, one.Addr}, ReadTimeout: 300 * time.Millisecond, ContextTimeoutEnabled: true,
		})
		defer newcomer.Close()
		untilRedisDecides(t, limited(t, newcomer, core.FailLocal), "keys of other servers must be decided by these")
	}
}

// One dead master must not fail the first decision of a new process about a key
// of another one.
func TestNewClientOfAClusterWithADeadMaster(t *testing.T) {
	beside(t)
	servers, client := split(t)
	dead := masterOf(t, servers, client, "key-0")
	var alive []string
	for _, one := range servers {
		if one != dead {
			alive = append(alive, one.Addr)
		}
	}
	keys := slices.DeleteFunc(keyNames(12), func(key string) bool { return masterOf(t, servers, client, "ratelimit:topology:"+key) == dead })
	dead.Kill()
	for _, key := range keys {
		// go-redis appends to the addresses that it is given.
		newcomer := redis.NewClusterClient(&redis.ClusterOptions{Addrs: slices.Clone(alive), ContextTimeoutEnabled: true})
		defer newcomer.Close()
		_, err := limited(t, newcomer, core.FailClosed, patient).Allow(t.Context(), key)
		require.NoError(t, err)
	}
}

// allDecided asks for all keys at once, and reports whether Redis decided each.
func allDecided(l *core.Limiter, keys []string) bool {
	var missing atomic.Int64
	var all sync.WaitGroup
	for _, key := range keys {
		all.Go(func() {
			if res, err := l.Allow(context.Background(), key); err != nil || res.Source != core.FromStore {
				missing.Add(1)
			}
		})
	}
	all.Wait()
	return missing.Load() == 0
}
