package chaos_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// everyKey is spared: Redis is healthy.
func everyKey(string) bool { return true }

// direct returns a client for commands that take long.
func direct(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// openClient returns a client of addr as redisstore.Open makes it.
func openClient(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// lasting is for how long most faults last.
func lasting() time.Duration {
	if *reportFile != "" {
		return 3 * time.Second
	}
	return time.Second
}

// tenMilliseconds is how many times 10 ms most faults last.
func tenMilliseconds() int { return int(lasting() / (10 * time.Millisecond)) }

// server is a target of one server. begin and end may use another client of it;
// between them it lasts for a while, or, if that is nil, for none.
func server(begin, end func(m *measurement, s *redistest.Server, c *redis.Client), lasts func() time.Duration, args ...string) func(*testing.T) target {
	return func(t *testing.T) target {
		s := redistest.Start(t, args...)
		t.Cleanup(s.Resume)
		c := direct(t, s)
		return target{client: openClient(t, s.Addr), fault: func(m *measurement) {
			begin(m, s, c)
			if lasts != nil {
				time.Sleep(lasts())
			}
			end(m, s, c)
		}}
	}
}

// command sends a command to a server.
func command(args ...any) func(*measurement, *redistest.Server, *redis.Client) {
	return func(m *measurement, _ *redistest.Server, c *redis.Client) {
		require.NoError(m, c.Do(context.Background(), args...).Err())
	}
}

// proxied is a target behind a proxy. spared is nil, or all.
func proxied(spared func(string) bool, fault func(*faultproxy.Proxy)) func(*testing.T) target {
	return func(t *testing.T) target {
		proxy := faultproxy.New(t, redistest.Start(t).Addr)
		return target{client: openClient(t, proxy.Addr), spared: spared, fault: func(*measurement) { fault(proxy) }}
	}
}

func broken(f faultproxy.Fault) func(*testing.T) target {
	return proxied(nil, func(p *faultproxy.Proxy) { breaks(p, f) })
}

func breaks(p *faultproxy.Proxy, f faultproxy.Fault) {
	p.Set(f)
	time.Sleep(lasting())
	p.Set(faultproxy.None)
}

func nothing(*measurement, *redistest.Server, *redis.Client) {}

// faults are those that a store must survive.
var faults = []struct {
	name   string
	target func(*testing.T) target
}{
	{"Redis is away at the start", func(t *testing.T) target {
		s := redistest.Start(t)
		s.Kill()
		return target{client: openClient(t, s.Addr), away: true, fault: func(m *measurement) {
			time.Sleep(lasting())
			s.Restart(m.T)
		}}
	}},
	{"killed, and restarted with its data", server(
		func(_ *measurement, _ *redistest.Server, c *redis.Client) {
			_ = c.Do(context.Background(), "DEBUG", "CRASH-AND-RECOVER", 1000).Err() // the connection ends
		},
		func(m *measurement, _ *redistest.Server, c *redis.Client) {
			m.until(func() bool { return c.Ping(context.Background()).Err() == nil }, "the server restarts")
		}, nil, "--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes")},
	{"killed, and restarted empty", server(
		func(m *measurement, s *redistest.Server, _ *redis.Client) { s.Kill(); m.forget() },
		func(m *measurement, s *redistest.Server, _ *redis.Client) { s.Restart(m.T) }, lasting)},
	{"SIGSTOP for 3 s", server(
		func(_ *measurement, s *redistest.Server, _ *redis.Client) { s.Pause() },
		func(_ *measurement, s *redistest.Server, _ *redis.Client) { s.Resume() }, lasting)},
	{"black hole for 3 s", broken(faultproxy.BlackHole)},
	{"replies are cut", broken(faultproxy.Truncate)},
	{"replies are lost", func(t *testing.T) target { // the client gives up first, and would send a plain command again
		proxy := faultproxy.New(t, redistest.Start(t).Addr)
		c := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: timeout / 2, MinRetryBackoff: -1, MaxRetryBackoff: -1})
		t.Cleanup(func() { _ = c.Close() })
		warm(t, c, c.Options().PoolSize)
		return target{client: c, fault: func(*measurement) { breaks(proxy, faultproxy.HalfOpen) }}
	}},
	{"connections are reset", broken(faultproxy.Reset)},
	{"latency from 0 to 90 ms within a second, with jitter", proxied(everyKey, func(p *faultproxy.Proxy) {
		const steps, most = 100, 90 * time.Millisecond
		for i := range tenMilliseconds() {
			p.SetLatency(most * time.Duration(min(i, steps)) / steps * time.Duration(80+rand.IntN(21)) / 100)
			time.Sleep(10 * time.Millisecond)
		}
	})},
	{"all connections die silently", func(t *testing.T) target {
		proxy := faultproxy.New(t, redistest.Start(t).Addr)
		c := openClient(t, proxy.Addr)
		warm(t, c, c.Options().PoolSize)
		return target{client: c, fault: func(*measurement) { proxy.Silence() }}
	}},
	{"SCRIPT FLUSH every 10 ms (NOSCRIPT)", func(t *testing.T) target {
		c := openClient(t, redistest.Start(t).Addr)
		return target{client: c, spared: everyKey, fault: func(m *measurement) {
			for range tenMilliseconds() {
				require.NoError(m, c.ScriptFlush(context.Background()).Err())
				time.Sleep(10 * time.Millisecond)
			}
		}}
	}},
	{"Redis loads its data (LOADING)", server(
		func(m *measurement, _ *redistest.Server, c *redis.Client) {
			ctx := context.Background()
			require.NoError(m, c.Do(ctx, "DEBUG", "POPULATE", 2000).Err())
			require.NoError(m, c.Do(ctx, "CONFIG", "SET", "key-load-delay", 1000, "loading-process-events-interval-bytes", 1024).Err())
			require.NoError(m, c.Do(ctx, "DEBUG", "RELOAD").Err())
		}, nothing, nil, "--enable-debug-command", "yes")},
	{"a script of others does not end (BUSY)", server(
		func(_ *measurement, _ *redistest.Server, c *redis.Client) {
			go func() { _ = c.Eval(context.Background(), "while true do end", nil).Err() }()
		},
		func(m *measurement, s *redistest.Server, _ *redis.Client) {
			require.NoError(m, s.Client(m.T).ScriptKill(context.Background()).Err())
		}, lasting, "--lua-time-limit", "10")},
	{"the master becomes a replica (READONLY)",
		server(command("REPLICAOF", "127.0.0.1", "1"), command("REPLICAOF", "NO", "ONE"), lasting)},
	{"memory full (OOM)",
		server(command("CONFIG", "SET", "maxmemory", 1), command("CONFIG", "SET", "maxmemory", 0), lasting)},
	{"ACL: the user is deleted, and comes back", aclChanges},
	{"TLS: another certificate, and the old one again", tlsChanges},
	{"contexts end at any point", func(t *testing.T) target {
		s := proxied(everyKey, func(p *faultproxy.Proxy) {
			p.SetLatency(3 * time.Millisecond)
			time.Sleep(lasting())
			p.Set(faultproxy.None)
		})(t)
		s.context = func() (context.Context, context.CancelFunc) {
			d := rand.N(8 * time.Millisecond)
			if rand.IntN(2) == 0 {
				return context.WithTimeout(context.Background(), d)
			}
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(d, cancel)
			return ctx, cancel
		}
		return s
	}},
	{"10,000 goroutines at once, three times", func(t *testing.T) target {
		return target{client: openClient(t, redistest.Start(t).Addr), spared: everyKey, fault: func(m *measurement) {
			for round := range 3 {
				var burst sync.WaitGroup
				for i := range 10_000 {
					burst.Go(func() { m.ask(context.Background(), fmt.Sprint("burst-", round, "-", i)) })
				}
				burst.Wait()
			}
		}}
	}},
	{"a hook of the client panics at each 20th call", func(t *testing.T) target {
		hook := &panics{}
		c := openClient(t, redistest.Start(t).Addr)
		c.AddHook(hook)
		return target{client: c, fault: func(*measurement) {
			hook.on.Store(true)
			time.Sleep(lasting())
			hook.on.Store(false)
		}}
	}},
	{"Cluster: 200 slots in use move twice (MOVED, ASK)", resharded},
	{"Cluster: no server has a slot (CLUSTERDOWN)", func(t *testing.T) target {
		servers, c := cluster(t)
		owner := masterOf(t, servers, c, measuredKey("key-0"))
		slot := int(c.ClusterKeySlot(context.Background(), measuredKey("key-0")).Val())
		return target{client: c, fault: func(m *measurement) {
			for _, s := range servers {
				require.NoError(m, s.Client(t).ClusterDelSlots(context.Background(), slot).Err())
			}
			time.Sleep(lasting())
			require.NoError(m, owner.Client(t).ClusterAddSlots(context.Background(), slot).Err())
			for _, s := range servers {
				m.until(func() bool {
					return strings.Contains(s.Client(t).ClusterInfo(context.Background()).Val(), "cluster_state:ok")
				}, "the slot has a server again")
			}
		}}
	}},
	{"Cluster: a master hangs for 3 s", sharded(func(_ *measurement, _ []*redistest.Server, master, _ *redistest.Server) {
		master.Pause()
		time.Sleep(lasting())
		master.Resume()
	})},
	{"Cluster: a master is killed, and its replica takes over", func(t *testing.T) target {
		s := sharded(func(m *measurement, servers []*redistest.Server, master, replica *redistest.Server) {
			for _, s := range servers {
				require.NoError(m, s.Client(m.T).ConfigSet(context.Background(), "cluster-node-timeout", "1000").Err())
			}
			master.Kill()
			m.until(func() bool { return isMaster(m.T, replica) }, "the replica takes over")
		})(t)
		s.successor = true
		return s
	}},
	{"Cluster: a master and its replica are killed", func(t *testing.T) target {
		s := sharded(func(_ *measurement, _ []*redistest.Server, master, replica *redistest.Server) {
			master.Kill()
			replica.Kill()
			time.Sleep(lasting())
		})(t)
		s.lost = true
		return s
	}},
	{"Ring: a shard is slow for 3 s", ringed(time.Hour, func(_ *measurement, _ *redis.Ring, _ *redistest.Server, proxy *faultproxy.Proxy) {
		proxy.SetLatency(5 * timeout)
		time.Sleep(lasting())
		proxy.Set(faultproxy.None)
	})},
	{"Ring: a shard is killed, and others get its keys", ringed(100*time.Millisecond,
		func(m *measurement, ring *redis.Ring, shard *redistest.Server, _ *faultproxy.Proxy) {
			shard.Kill()
			m.forget()
			m.until(func() bool { return ring.Len() == 2 }, "the ring drops the shard")
		})},
	{"Sentinel: the master is killed, and its replica takes over", func(t *testing.T) target {
		master, replica := redistest.Start(t), redistest.Start(t)
		follow(t, replica, master.Addr)
		sentinels := watch(t, master, 3)
		c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "limits", SentinelAddrs: sentinels, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = c.Close() })
		return target{client: c, successor: true, fault: func(m *measurement) {
			noticeSoon(t, sentinels)
			master.Kill()
			m.until(func() bool { return isMaster(t, replica) }, "the replica takes over")
		}}
	}},
}

// In no fault is a token granted or charged twice, and when it is over Redis
// decides again. A report also has what failed, and how soon it healed.
func TestFaults(t *testing.T) {
	if redistest.Major(t, redistest.Client(t)) < 7 {
		t.Skip("some faults need DEBUG and CONFIG SET as of Redis 7")
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if *reportFile == "" {
				t.Parallel()
			}
			measure(t, f.name, f.target(t))
		})
	}
}

func isMaster(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	c := s.Client(t)
	defer c.Close()
	role, err := c.Do(context.Background(), "ROLE").Slice()
	return err == nil && role[0] == "master"
}

// aclChanges is a server whose administrator deletes the limiter's user, which
// closes its connections.
func aclChanges(t *testing.T) target {
	s := redistest.Start(t)
	admin := s.Client(t)

	limiterACL := strings.Replace(limiterACL, "~ratelimit:*", "~*", 1)
	add := func() { require.NoError(t, admin.Do(context.Background(), aclArgs("limiter", limiterACL)...).Err()) }
	add()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "limiter", Password: "secret", ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return target{client: c, fault: func(m *measurement) {
		require.NoError(m, admin.Do(context.Background(), "ACL", "DELUSER", "limiter").Err())
		time.Sleep(lasting())
		add()
	}}
}

// tlsChanges is a server that gets a certificate that the client does not
// trust, and closes all connections.
func tlsChanges(t *testing.T) target {
	cert, key, pool := redistest.Certificate(t)
	otherCert, otherKey, _ := redistest.Certificate(t)
	port, err := redistest.FreePort()
	require.NoError(t, err)
	s := redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	c := redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", port), ContextTimeoutEnabled: true,
		TLSConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}})
	t.Cleanup(func() { _ = c.Close() })
	admin := s.Client(t)
	present := func(m *measurement, cert, key string) {
		require.NoError(m, admin.Do(context.Background(), "CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key).Err())
		require.NoError(m, admin.Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	}
	return target{client: c, fault: func(m *measurement) {
		present(m, otherCert, otherKey)
		time.Sleep(lasting())
		present(m, cert, key)
	}}
}

// panics is a hook that panics before some calls, and after others.
type panics struct {
	redistest.Hook
	on    atomic.Bool
	calls atomic.Int64
}

func (p *panics) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		call := int64(-1)
		if p.on.Load() {
			call = p.calls.Add(1)
		}
		if call%40 == 0 {
			panic("before a call")
		}
		err := next(ctx, cmd)
		if call%40 == 20 {
			panic("after a call")
		}
		return err
	}
}

// resharded is a Cluster of which slots move, with keys in these slots.
func resharded(t *testing.T) target {
	const moved = 200
	servers, c := cluster(t)
	return target{client: c, spared: everyKey, shared: keysInFirstSlots(t, servers[0], 8, moved), fault: func(*measurement) {
		masters := masterIDs(t, servers[0])
		for i := range 2 { // from their master to the next and on to the third
			agreed(t, servers[0])
			cli(t, "--cluster", "reshard", servers[0].Addr, "--cluster-from", masters[i], "--cluster-to", masters[i+1],
				"--cluster-slots", fmt.Sprint(moved), "--cluster-yes")
		}
		agreed(t, servers[0])
	}}
}

// sharded is a Cluster of which a master fails.
func sharded(fault func(m *measurement, servers []*redistest.Server, master, replica *redistest.Server)) func(*testing.T) target {
	return func(t *testing.T) target {
		servers, c := split(t)
		master := masterOf(t, servers, c, measuredKey("key-0"))
		replica := replicaOf(t, servers, master)
		spared := func(key string) bool {
			node, err := c.MasterForKey(context.Background(), key)
			require.NoError(t, err)
			addr := node.Options().Addr
			return addr != master.Addr && addr != replica.Addr
		}
		return target{client: c, spared: spared, fault: func(m *measurement) { fault(m, servers, master, replica) }}
	}
}

// ringed is a Ring of three, of which the first fails.
func ringed(heartbeat time.Duration, fault func(*measurement, *redis.Ring, *redistest.Server, *faultproxy.Proxy)) func(*testing.T) target {
	return func(t *testing.T) target {
		first := redistest.Start(t)
		proxy := faultproxy.New(t, first.Addr)
		addrs := map[string]string{"one": proxy.Addr, "two": redistest.Start(t).Addr, "three": redistest.Start(t).Addr}
		ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: heartbeat, ContextTimeoutEnabled: true})
		whole := redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: time.Hour})
		t.Cleanup(func() { _, _ = ring.Close(), whole.Close() })
		spared := func(key string) bool {
			one, err := whole.GetShardClientForKey(key)
			require.NoError(t, err)
			return one.Options().Addr != proxy.Addr
		}
		return target{client: ring, spared: spared, fault: func(m *measurement) { fault(m, ring, first, proxy) }}
	}
}
