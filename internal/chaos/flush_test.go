package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

const (
	wait = 30 * time.Second
	tick = time.Millisecond
)

// patient is a timeout that no decision reaches on a busy machine: these tests
// are not about slowness.
var patient = redisstore.WithTimeout(10 * time.Second)

// asking turns the deny cache off, so that Redis makes every decision.
var asking = redisstore.WithDenyCache(0)

func keyNames(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("key-", i)
	}
	return list
}

func TestFlushAllOnlyFillsBuckets(t *testing.T) {
	client := redistest.Start(t).Client(t)
	l := core.Must(core.NewLimiter(redisstore.New(client, patient, asking), core.Policy{
		Name: "flush", Limits: []core.Limit{core.PerDay(capacity)}, OnFailure: core.FailClosed}))
	const callers, flushes = 4, 3
	var admitted, failed atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, key := range keyNames(callers) {
		all.Go(func() {
			for ctx.Err() == nil {
				res, err := l.Allow(context.Background(), key)
				if err != nil {
					failed.Add(1)
				}
				if res.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	empty := func() {
		for _, key := range keyNames(callers) {
			require.Eventually(t, func() bool {
				res, err := l.Peek(context.Background(), key)
				return err == nil && res.Remaining == 0
			}, wait, tick, key)
		}
	}
	empty()
	for range flushes {
		require.NoError(t, client.FlushAll(context.Background()).Err())
		empty()
	}
	stop()
	all.Wait()
	assert.Zero(t, failed.Load(), "no decision fails")
	assert.Equal(t, int64(callers*capacity*(1+flushes)), admitted.Load(), "a flush must fill each bucket once")
}

// A replica with a slower clock takes over, so the clock that decides steps
// back.
func TestFailoverToAnOlderClockNeitherRefillsNorStalls(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	ctx := context.Background()
	toMaster, toReplica := master.Client(t), replica.Client(t)
	follow(t, replica, master.Addr)

	now := time.Now()
	policy := core.Policy{Name: "clock", OnFailure: core.FailClosed,
		Limits: []core.Limit{{Capacity: 10, RefillRate: 10, RefillInterval: 10 * time.Hour}}}
	limiter := func(c *redis.Client, clock func() time.Time) *core.Limiter {
		return core.Must(core.NewLimiter(redisstore.New(c, patient, core.WithClock(clock)), policy))
	}
	old := limiter(toMaster, func() time.Time { return now })
	res, err := old.AllowN(ctx, "k", 10)
	require.NoError(t, err)
	require.True(t, res.Allowed)
	require.Eventually(t, func() bool { return toReplica.Exists(ctx, "ratelimit:clock:k").Val() == 1 }, wait, tick, "premise: the replica has the bucket")

	master.Kill()
	require.NoError(t, toReplica.ReplicaOf(ctx, "NO", "ONE").Err())
	behind := now.Add(-24 * time.Hour)
	after := limiter(toReplica, func() time.Time { return behind })
	res, err = after.Allow(ctx, "k")
	require.NoError(t, err)
	require.False(t, res.Allowed, "a clock that stepped back refills nothing")
	assert.Equal(t, time.Hour, res.RetryAfter, "nor does the bucket stall: one token comes in an hour")
	behind = behind.Add(res.RetryAfter)
	res, err = after.Allow(ctx, "k")
	require.NoError(t, err)
	assert.True(t, res.Allowed, "waiting RetryAfter suffices on the new clock")
}

// exceptionsKey is where the exceptions of these tests are.
const exceptionsKey = "ratelimit:%exceptions:api"

// forgetful is a Redis that loses the exceptions of a policy.
type forgetful struct {
	client redis.UniversalClient
	lasts  time.Duration // of what operators say: some servers evict only what has an end
	freeze func()        // what is written afterwards will be lost; nil: everything is
	forget func()
}

// An operator's word outlives Redis' memory: what processes have read holds
// without a gap, comes back, and is learnt by a new process.
func TestFlushEndsNoBlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	forgets(t, forgetful{client: client, forget: func() { require.NoError(t, client.FlushAll(t.Context()).Err()) }})
}

// The same for all other ways in which Redis forgets.
func TestForgettingEndsNoBlock(t *testing.T) {
	soak.Only(t, TestFlushEndsNoBlock)
	t.Run("a restart without persistence", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		forgets(t, forgetful{client: server.Client(t), forget: func() {
			server.Kill()
			server.Restart(t)
		}})
	})
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client, ctx := server.Client(t), t.Context()
			require.NoError(t, client.ConfigSet(ctx, "maxmemory-policy", policy).Err())
			forgets(t, forgetful{client: client, lasts: time.Hour, forget: func() {
				require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
				require.Eventually(t, func() bool { return hasEvicted(t, client) }, wait, tick, "premise: the hash is evicted")
				require.NoError(t, client.ConfigSet(ctx, "maxmemory", "0").Err())
			}})
		})
	}
	t.Run("a lost shard of a Ring", func(t *testing.T) {
		t.Parallel()
		shards := map[string]*redistest.Server{}
		addrs := map[string]string{}
		for range 2 {
			s := redistest.Start(t)
			shards[s.Addr], addrs[s.Addr] = s, s.Addr
		}
		ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
		t.Cleanup(func() { _ = ring.Close() })
		forgets(t, forgetful{client: ring, forget: func() {
			shard, err := ring.GetShardClientForKey(exceptionsKey)
			require.NoError(t, err)
			shards[shard.Options().Addr].Kill()
		}})
	})
	t.Run("a replica without the last writes takes over", func(t *testing.T) {
		t.Parallel()
		master, replica := redistest.Start(t), redistest.Start(t)
		follow(t, replica, master.Addr)
		var addr atomic.Value
		addr.Store(master.Addr)
		client := redis.NewClient(&redis.Options{Addr: master.Addr, Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr.Load().(string))
		}})
		t.Cleanup(func() { _ = client.Close() })
		forgets(t, forgetful{
			client: client,
			freeze: func() { require.NoError(t, replica.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err()) },
			forget: func() {
				addr.Store(replica.Addr)
				master.Kill()
			},
		})
	})
}

// hasEvicted reports whether a server has evicted keys.
func hasEvicted(t *testing.T, client *redis.Client) bool {
	t.Helper()
	info, err := client.Info(t.Context(), "stats").Result()
	return err == nil && !strings.Contains(info, "evicted_keys:0\r")
}

// forgets has two processes follow exceptions of a Redis that forgets them.
func forgets(t *testing.T, f forgetful) {
	t.Helper()
	ctx := t.Context()
	var lines logtest.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}, OnFailure: core.FailOpen}
	process := func() (*redisstore.Store, *core.Limiter) {
		s := redisstore.New(f.client, patient, core.WithLogger(logger))
		return s, core.Must(core.NewLimiter(s, policy))
	}
	operator, _ := process()
	following, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { end(); running.Wait() })
	var fleet []*core.Limiter
	for range 2 {
		s, l := process()
		running.Go(func() { s.FollowExceptions(following, l) })
		fleet = append(fleet, l)
	}
	blocks := func(n int) func() bool {
		return func() bool {
			return len(fleet[0].Exceptions().Blocked) == n && len(fleet[1].Exceptions().Blocked) == n
		}
	}
	require.NoError(t, operator.SetException(ctx, "api", redisstore.Exception{Key: "ann", For: f.lasts}))
	require.Eventually(t, blocks(1), wait, tick, "premise: the processes follow")
	if f.freeze != nil {
		f.freeze()
	}
	require.NoError(t, operator.SetException(ctx, "api", redisstore.Exception{Key: "eve", For: f.lasts, By: "bob", Reason: "scraper"}))
	_, err := operator.RemoveException(ctx, "api", "ann", "", "")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return blocks(1)() && fleet[0].Exceptions().Blocked[0] == "eve" && fleet[1].Exceptions().Blocked[0] == "eve"
	}, wait, tick, "premise: both know the last words")

	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	var admitted atomic.Int64
	for _, l := range fleet {
		asked.Go(func() {
			for asking.Err() == nil {
				if res, err := l.Allow(ctx, "eve"); err != nil || res.Allowed {
					admitted.Add(1)
				}
				time.Sleep(tick)
			}
		})
	}
	f.forget()
	require.Eventually(t, func() bool {
		list, err := operator.Exceptions(ctx, "api")
		return err == nil && len(list) == 1 && list[0].Key == "eve"
	}, 2*wait, tick, "a process puts the newest words back")
	stop()
	asked.Wait()
	assert.Zero(t, admitted.Load(), "a block holds without a gap")
	require.Eventually(t, func() bool { return lines.Count("and was put back") > 0 }, wait, tick, "the loss is logged")
	assert.Equal(t, 1, lines.Count("and was put back"), "the loss is logged once: %s", lines.String())
	assert.NotContains(t, lines.String(), "was: eve", "and not as if it was removed")

	s, newcomer := process()
	require.NoError(t, s.ReadExceptions(ctx, newcomer))
	assert.Equal(t, []string{"eve"}, newcomer.Exceptions().Blocked, "a process that starts then learns it from Redis")
	note := newcomer.Exceptions().BlockNotes["eve"]
	assert.Equal(t, []string{"bob", "scraper"}, []string{note.By, note.Reason}, "with its author and reason")
	_, err = operator.RemoveException(ctx, "api", "eve", "", "")
	require.NoError(t, err)
	require.Eventually(t, blocks(0), wait, tick, "an operator's newer word ends it everywhere")
}
