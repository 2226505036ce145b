package chaos_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
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

func TestScriptFlushUnderLoadFailsNoRequest(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	l, err := core.NewLimiter(redisstore.New(client, patient, asking), core.Policy{
		Name: "flush", Limits: []core.Limit{core.PerDay(capacity)}, OnFailure: core.FailClosed})
	require.NoError(t, err)
	const callers = 8
	ld := startLoad(l, keyNames(callers)...)
	for range 20 {
		require.NoError(t, client.ScriptFlush(context.Background()).Err())
		ld.pass(t, 100)
	}
	drained(t, l, keyNames(callers))
	ld.end()
	assert.Zero(t, ld.failed.Load(), "a lost script cache must fail no request")
	assert.Equal(t, int64(callers*capacity), ld.admitted.Load(), "each bucket must admit what it holds, and no token twice")
}

// If keys are on several servers, the store sends a batch as a pipeline.
func TestScriptFlushOnARingFailsNoRequest(t *testing.T) {
	shards := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": shards[0].Addr, "two": shards[1].Addr}})
	defer client.Close()
	l := limited(t, client, core.FailClosed, patient)
	const callers = 64
	ld := startLoad(l, keyNames(callers)...)
	for range 10 {
		for _, s := range shards {
			require.NoError(t, s.Client(t).ScriptFlush(context.Background()).Err())
		}
		ld.pass(t, 10*callers)
	}
	drained(t, l, keyNames(callers))
	ld.end()
	assert.Zero(t, ld.failed.Load(), "a lost script cache must fail no request")
	assert.Equal(t, int64(callers*capacity), ld.admitted.Load(), "each bucket must admit what it holds, and no token twice")
}

func TestFlushAllOnlyFillsBuckets(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	l, err := core.NewLimiter(redisstore.New(client, patient, asking), core.Policy{
		Name: "flush", Limits: []core.Limit{core.PerDay(capacity)}, OnFailure: core.FailClosed})
	require.NoError(t, err)
	const callers, flushes = 4, 3
	ld := startLoad(l, keyNames(callers)...)
	drained(t, l, keyNames(callers))
	for range flushes {
		require.NoError(t, client.FlushAll(context.Background()).Err())
		drained(t, l, keyNames(callers))
	}
	ld.end()
	assert.Zero(t, ld.failed.Load(), "no decision fails")
	assert.Equal(t, int64(callers*capacity*(1+flushes)), ld.admitted.Load(), "a flush must fill each bucket once")
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
