package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// shards is a Cluster or a Ring of which one shard fails.
type shards struct {
	client   redis.UniversalClient
	ofShard  func(redisKey string) string // the shard that has a key
	lost     string                       // the shard that fails
	fail     func()
	recovers bool // another server gets the keys
}

// shardPrefix begins the keys of these tests.
const shardPrefix = "shards:"

// theSlot is the shard that fails where only a slot does.
const theSlot = "a slot"

// keys returns keys whose buckets are on the shard that will fail, and on
// others: n, which are one of a slot.
func (s shards) keys(n int) (doomed, safe []string) {
	for i := 0; len(doomed) < n && s.lost != theSlot || len(safe) < n; i++ {
		key := "key-" + strconv.Itoa(i)
		if s.ofShard(redisKeyOf(key)) == s.lost {
			doomed = append(doomed, key)
		} else {
			safe = append(safe, key)
		}
	}
	if s.lost == theSlot {
		doomed = slices.Repeat(doomed[:1], n)
	}
	return doomed[:n], safe[:n]
}

// redisKeyOf is the Redis key of a bucket of these tests.
func redisKeyOf(key string) string { return shardPrefix + "shards:" + key }

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

// ofCluster are the shards of a Cluster, of which one fails.
func ofCluster(t *testing.T, servers []*redistest.Server, client *redis.ClusterClient, fail func(master, replica *redistest.Server)) shards {
	t.Helper()
	client.ReloadState(context.Background())
	of := func(key string) string {
		node, err := client.MasterForKey(context.Background(), key)
		require.NoError(t, err)
		return node.Options().Addr
	}
	master := masterOf(t, servers, client, redisKeyOf("key-0"))
	replica := replicaOf(t, servers, master)
	return shards{client: client, ofShard: of, lost: master.Addr, fail: func() { fail(master, replica) }}
}

// quickLoss is the case without a Cluster, whose start takes seconds.
const quickLoss = "Ring: a shard hangs"

func TestLostShardConcernsItsOwnKeys(t *testing.T) {
	for _, c := range []struct {
		name  string
		setUp func(t *testing.T) shards
	}{
		{"Cluster: a master and its replica are killed", func(t *testing.T) shards {
			servers, client := split(t)
			return ofCluster(t, servers, client, func(master, replica *redistest.Server) { master.Kill(); replica.Kill() })
		}},
		{"Cluster: a master hangs", func(t *testing.T) shards {
			servers, client := split(t)
			return ofCluster(t, servers, client, func(master, _ *redistest.Server) {
				master.Pause()
				t.Cleanup(master.Resume)
			})
		}},
		{"Cluster: a master is killed, and its replica takes over", func(t *testing.T) shards {
			servers, client := split(t)
			s := ofCluster(t, servers, client, func(master, _ *redistest.Server) {
				for _, one := range servers {
					require.NoError(t, one.Client(t).ConfigSet(context.Background(), "cluster-node-timeout", "1000").Err())
				}
				master.Kill()
			})
			s.recovers = true
			return s
		}},
		{"Cluster: no server has a slot", withoutASlot},
		{quickLoss, func(t *testing.T) shards {
			return ofRing(t, time.Hour, (*redistest.Server).Pause)
		}},
		{"Ring: a shard is killed, and others get its keys", func(t *testing.T) shards {
			s := ofRing(t, 100*time.Millisecond, (*redistest.Server).Kill)
			s.recovers = true
			return s
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != quickLoss && *reportFile == "" {
				soak.Only(t, TestLostShardConcernsItsOwnKeys) // with quickLoss
			}
			loseShard(t, c.name, c.setUp(t), c.setUp(t))
		})
	}
}

// withoutASlot are the shards of a Cluster of which no server has the slot of
// one key.
func withoutASlot(t *testing.T) shards {
	t.Helper()
	servers, client := split(t)
	s := ofCluster(t, servers, client, nil)
	of, doomed := s.ofShard, redisKeyOf("key-0")
	s.lost = theSlot
	s.ofShard = func(key string) string {
		if key == doomed {
			return theSlot
		}
		return of(key)
	}
	slot := int(client.ClusterKeySlot(context.Background(), doomed).Val())
	s.fail = func() {
		for _, one := range servers {
			require.NoError(t, one.Client(t).ClusterDelSlots(context.Background(), slot).Err())
		}
	}
	return s
}

// ofRing are the shards of a Ring of three, of which the first fails.
func ofRing(t *testing.T, heartbeat time.Duration, fail func(*redistest.Server)) shards {
	t.Helper()
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	addrs := map[string]string{}
	for _, s := range servers {
		addrs[s.Addr] = s.Addr
	}
	client := redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: heartbeat, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return shards{
		client: client,
		ofShard: func(key string) string {
			one, err := client.GetShardClientForKey(key)
			require.NoError(t, err)
			return one.Options().Addr
		},
		lost: servers[0].Addr,
		fail: func() {
			fail(servers[0])
			t.Cleanup(servers[0].Resume)
		},
	}
}

// unhurt is a limiter on shards of which none fails yet, and keys that are used
// alike.
func unhurt(t *testing.T, s shards) (l *core.Limiter, store *redisstore.Store, doomed, safe []string) {
	t.Helper()
	store = redisstore.New(s.client, redisstore.WithPrefix(shardPrefix), redisstore.WithDenyCache(0))
	l = core.Must(core.NewLimiter(store, core.Policy{Name: "shards", Limits: []core.Limit{core.PerSecond(1_000_000)}, OnFailure: core.FailLocal}))
	doomed, safe = s.keys(8)
	decidesAgain(t, l, append(append([]string{}, doomed...), safe...))
	counted(l, doomed, safe, time.Second) // so that connections are made
	return l, store, doomed, safe
}

// throughputStays compares the other shards of l, of whose shards one has just
// failed, with those of whole. They take turns, so that what else the machine
// does hits both. What is decided for keys of the lost shard was decided by the
// others. It returns what became of the decisions of both, each after so long.
func throughputStays(t *testing.T, l, whole *core.Limiter, doomed, safe, doomedOfWhole, safeOfWhole []string) (hurt, healthy bothFates, during time.Duration) {
	t.Helper()
	const slice, slices, most = 100 * time.Millisecond, 20, 100
	simulations := func() int64 { return hurt.safe.decided + hurt.doomed.decided }
	for n := range most {
		if n >= slices && simulations()*10 >= healthy.safe.decided*9 {
			break
		}
		during += slice
		hurt.add(counted(l, doomed, safe, slice))
		healthy.add(counted(whole, doomedOfWhole, safeOfWhole, slice))
	}
	t.Logf("after %v: %d decisions, and %d for keys of the lost shard; of a whole one %d", during, hurt.safe.decided, hurt.doomed.decided, healthy.safe.decided)
	assert.GreaterOrEqual(t, simulations()*10, healthy.safe.decided*9, "the throughput of other shards must stay within a tenth")
	return hurt, healthy, during
}

// loseShard makes requests for keys of a shard, and of others, before and after
// it fails. whole has the same shards, and none fails.
func loseShard(t *testing.T, name string, s, whole shards) {
	t.Helper()
	l, store, doomed, safe := unhurt(t, s)
	wholeLimiter, _, doomedOfWhole, safeOfWhole := unhurt(t, whole)

	const plainly = 3 * time.Second
	var plainBefore, plainAfter bothFates
	if *reportFile != "" {
		plainBefore = counted(plain{s.client}, doomed, safe, plainly)
	}
	s.fail()
	after, healthy, during := throughputStays(t, l, wholeLimiter, doomed, safe, doomedOfWhole, safeOfWhole)
	stats := store.Stats()
	if *reportFile != "" {
		plainAfter = counted(plain{s.client}, doomed, safe, plainly)
		reportShards(name, during, healthy, after, plainly, plainBefore, plainAfter)
	}

	assert.Positive(t, after.doomed.fallback, "premise: the shard fails")
	assert.LessOrEqual(t, after.safe.fallback, after.safe.decided/100, "a shard that fails must concern no keys of others")
	if s.lost == theSlot {
		assert.Zero(t, stats.Opened, "an error that names a slot opens no breaker")
	}
	if s.recovers {
		decidesAgain(t, l, append(append([]string{}, doomed...), safe...))
		require.Eventually(t, func() bool { return store.Stats().Breaker == storestats.BreakerClosed }, 2*wait, 10*tick,
			"a server that has no keys any more must not count as away for ever")
	}
}

// plain is INCR of go-redis, for comparison.
type plain struct{ client redis.UniversalClient }

func (p plain) Allow(ctx context.Context, key string) (res core.Result, err error) {
	if err := p.client.Incr(ctx, shardPrefix+"plain:"+key).Err(); err != nil {
		res.Source = core.FromFallback
	}
	return res, nil
}

// fates counts decisions.
type fates struct{ decided, fallback int64 }

type bothFates struct{ safe, doomed fates }

func (b *bothFates) add(more bothFates) {
	b.safe.decided += more.safe.decided
	b.safe.fallback += more.safe.fallback
	b.doomed.decided += more.doomed.decided
	b.doomed.fallback += more.doomed.fallback
}

// counted has callers make decisions for a while. Some ask for doomed keys
// only, a thousand times a second at most.
func counted(l interface {
	Allow(ctx context.Context, key string) (core.Result, error)
}, doomed, safe []string, during time.Duration) (b bothFates) {
	var decided, fallback [2]atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), during+time.Minute)
	defer cancel()
	end := time.Now().Add(during)
	var all sync.WaitGroup
	for i, keys := range [][]string{safe, doomed} {
		for _, key := range keys {
			all.Go(func() {
				for time.Now().Before(end) {
					if res, err := l.Allow(ctx, key); err == nil && res.Source == core.FromStore {
						decided[i].Add(1)
					} else {
						fallback[i].Add(1)
					}
					if i == 1 {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
	}
	all.Wait()
	return bothFates{fates{decided[0].Load(), fallback[0].Load()}, fates{decided[1].Load(), fallback[1].Load()}}
}

// reportShards adds a row to the table of lost shards.
func reportShards(name string, during time.Duration, whole, after bothFates, plainly time.Duration, plainBefore, plainAfter bothFates) {
	rate := func(f fates, during time.Duration) string {
		return fmt.Sprintf("%.1fk", float64(f.decided)/during.Seconds()/1000)
	}
	tables.Lock()
	defer tables.Unlock()
	tables.shards = append(tables.shards, fmt.Sprintf("| %s | %s | %s | %d | %s | %s |\n", name, rate(whole.safe, during),
		rate(after.safe, during), after.safe.fallback, rate(plainBefore.safe, plainly), rate(plainAfter.safe, plainly)))
}
