package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// A client that is new to a Cluster may ask the server that hangs where keys
// are. Then it asks others.
func TestNewClientOfAClusterWithAServerThatHangs(t *testing.T) {
	t.Run("a server of one that owns all slots, beside one that hangs", func(t *testing.T) {
		one := redistest.Start(t, "--cluster-enabled", "yes")
		require.NoError(t, one.Client(t).ClusterAddSlotsRange(context.Background(), 0, 16383).Err())
		hung := redistest.Start(t)
		hung.Pause()
		t.Cleanup(hung.Resume)
		newcomersDecide(t, []string{hung.Addr, one.Addr}, []string{"ann", "bob"})
	})
	t.Run("a master that hangs", func(t *testing.T) {
		if *reportFile == "" {
			soak.Only(t, TestNewClientOfAClusterWithAServerThatHangs)
		}
		servers, client := split(t)
		s := ofCluster(t, servers, client, func(master, _ *redistest.Server) {
			master.Pause()
			t.Cleanup(master.Resume)
		})
		_, safe := s.keys(8)
		s.fail()
		var addrs []string
		for _, one := range servers {
			addrs = append(addrs, one.Addr)
		}
		newcomersDecide(t, addrs, safe)
	})
}

// newcomersDecide has new clients decide for keys of servers that answer: each
// asks the addresses in a random order.
func newcomersDecide(t *testing.T, addrs, keys []string) {
	t.Helper()
	for range 5 {
		newcomer := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: 300 * time.Millisecond, ContextTimeoutEnabled: true})
		defer newcomer.Close()
		l := core.Must(core.NewLimiter(redisstore.New(newcomer, redisstore.WithPrefix(shardPrefix)), core.Policy{
			Name: "shards", Limits: []core.Limit{core.PerSecond(1_000_000)}, OnFailure: core.FailLocal,
		}))
		began := time.Now()
		require.Eventually(t, func() bool {
			for _, key := range keys {
				if res, err := l.Allow(context.Background(), key); err != nil || res.Source != core.FromStore {
					return false
				}
			}
			return true
		}, wait, tick, "keys of other servers must be decided by these")
		t.Logf("after %v", time.Since(began))
	}
}
