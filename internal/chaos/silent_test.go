package chaos_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// idle is how many connections the client has when all of them die: as many as
// its pool can have.
const idle = 20

// proxiedClient is a client of a server behind a proxy.
type proxiedClient struct {
	name    string
	cluster bool // the server is a Cluster
	open    func(proxy *faultproxy.Proxy) redis.UniversalClient
}

var proxiedClients = []proxiedClient{
	{name: "New", open: func(proxy *faultproxy.Proxy) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: proxy.Addr, PoolSize: idle})
	}},
	{name: "Cluster", cluster: true, open: func(proxy *faultproxy.Proxy) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{proxy.Addr}, PoolSize: idle, ContextTimeoutEnabled: true,
			Dialer: func(ctx context.Context, protocol, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, protocol, proxy.Addr)
			}})
	}},
	{name: "New, ContextTimeoutEnabled", open: func(proxy *faultproxy.Proxy) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: proxy.Addr, PoolSize: idle, ContextTimeoutEnabled: true})
	}},
	{name: "Ring", open: func(proxy *faultproxy.Proxy) redis.UniversalClient {
		return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": proxy.Addr}, PoolSize: idle, ContextTimeoutEnabled: true,
			HeartbeatFrequency: time.Hour}) // the Ring finds no dead connection itself
	}},
}

// All connections die silently at once, and new ones work. The store must find
// that out, however seldom it is asked.
func TestConnectionsThatDiedSilently(t *testing.T) {
	every := []time.Duration{500 * time.Millisecond}
	if soak.On() || *reportFile != "" {
		every = append(every, 5*time.Second, 100*time.Millisecond, 5*time.Millisecond)
	}
	ignore := goleak.IgnoreCurrent()
	t.Run("clients", func(t *testing.T) {
		for _, c := range proxiedClients {
			for _, e := range every {
				t.Run(fmt.Sprintf("%s, a request every %v", c.name, e), func(t *testing.T) {
					t.Parallel() // they mostly wait
					dieSilently(t, c, e)
				})
			}
		}
	})
	assert.Eventually(t, func() bool { return goleak.Find(ignore) == nil }, wait, time.Second, "no goroutine is left")
}

// dieSilently makes decisions, one every so often, while all connections die.
func dieSilently(t *testing.T, c proxiedClient, every time.Duration) {
	t.Helper()
	start := oneNode
	if !c.cluster {
		start = func(t *testing.T) *redistest.Server { return redistest.Start(t) }
	}
	proxy := faultproxy.New(t, start(t).Addr)
	client := c.open(proxy)
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1_000_000).WithMode(core.Stepped)}}))
	require.Eventually(t, func() bool {
		res, err := l.Allow(context.Background(), "k")
		return err == nil && res.Source == core.FromStore
	}, wait, tick, "premise: Redis decides")
	fill(t, client)

	proxy.Silence()
	began, failed := time.Now(), 0
	for ; ; failed++ {
		res, err := l.Allow(context.Background(), "silent")
		require.NoError(t, err)
		if res.Source == core.FromStore {
			break
		}
		require.Less(t, time.Since(began), wait+10*every, "the store must use new connections")
		time.Sleep(every)
	}
	took := time.Since(began)
	t.Logf("Redis decides again after %v; %d decisions were made without it", took.Round(time.Millisecond), failed)
	if *reportFile != "" {
		require.Less(t, took, 2*time.Second+every, "promise: recovery within 2 s")
	}
	assert.Less(t, took, 5*time.Second+2*every, "new connections work, so the store must use them soon")
	if every > timeout {
		assert.LessOrEqual(t, failed, 4, "a caller now and then must not find out about the connections one by one")
	}
	res, err := l.Peek(context.Background(), "silent")
	require.NoError(t, err)
	assert.EqualValues(t, 1, 1_000_000-res.Remaining, "the one decision that Redis made is charged, and none twice")
	fill(t, client) // the app's other commands find no dead connection
}

// fill has the client keep many idle connections.
func fill(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	hold := func(ctx context.Context, one *redis.Client) error {
		var held []*redis.Conn
		for range idle {
			c := one.Conn()
			if err := c.Ping(ctx).Err(); err != nil {
				return err
			}
			held = append(held, c)
		}
		for _, c := range held {
			_ = c.Close()
		}
		return nil
	}
	switch c := client.(type) {
	case *redis.Client:
		require.NoError(t, hold(context.Background(), c))
	case *redis.Ring:
		require.NoError(t, c.ForEachShard(context.Background(), hold))
	case *redis.ClusterClient:
		require.NoError(t, c.ForEachMaster(context.Background(), hold))
	}
	require.EqualValues(t, idle, client.PoolStats().IdleConns, "premise: the pool is full of idle connections")
}
