package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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

// follow has limiters follow exceptions until the test ends, at a rate of its
// own.
func follow(t *testing.T, s *redisstore.Store, limiters ...*core.Limiter) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { redisstore.FollowExceptions(ctx, s, 2*time.Millisecond, limiters...) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func limiterOf(s *redisstore.Store, policy string) *core.Limiter {
	return core.Must(core.NewLimiter(s, core.Policy{Name: policy, Limits: []core.Limit{core.PerDay(5)}}))
}

// eventually waits until a limiter blocks just these keys.
func eventually(t *testing.T, l *core.Limiter, rule string, blocked ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(l.Exceptions().Blocked, blocked) }, time.Minute, time.Millisecond, rule)
}

func block(t *testing.T, s *redisstore.Store, policy, key string) {
	t.Helper()
	require.NoError(t, s.SetException(t.Context(), policy, redisstore.Exception{Key: key}))
}

func TestFollowersObeyEachChange(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	a, b, other, idle := limiterOf(s, "api"), limiterOf(s, "api"), limiterOf(s, "other"), limiterOf(s, "api")
	follow(t, s, a, nil, b, other)
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.PerDay(50)}}))
	limittest.ComesBack(t, a, "ann", 50, "an override")
	limittest.ComesBack(t, b, "ann", 50, "in every limiter")
	limittest.ComesBack(t, b, "joe", 5, "others keep their limits")
	limittest.ComesBack(t, other, "ann", 5, "policies have exceptions of their own")
	limittest.ComesBack(t, idle, "ann", 5, "who does not follow reads nothing")
	block(t, s, "api", "ann")
	eventually(t, b, "a block", "ann")
	res, err := b.Allow(ctx, "ann")
	require.NoError(t, err)
	assert.False(t, res.Allowed)
	remove(t, s, "api", "ann")
	limittest.ComesBack(t, a, "ann", 5, "a removal")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "eve", For: 300 * time.Millisecond}))
	eventually(t, b, "an exception ends by itself")
}

func TestReadExceptionsBeforeTheFirstRequest(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	l := limiterOf(s, "api")
	block(t, s, "api", "eve")
	require.NoError(t, s.ReadExceptions(ctx, l, nil))
	res, err := l.Allow(ctx, "eve")
	require.NoError(t, err)
	assert.False(t, res.Allowed)
	client := redistest.Client(t)
	require.NoError(t, client.HSet(ctx, redisstore.ExceptionsKey(s, "api"), "mallory", "later").Err())
	err = s.ReadExceptions(ctx, l)
	require.ErrorContains(t, err, "1 exceptions can't be read")
	assert.NotContains(t, err.Error(), "mallory", "an app may log it")
	assert.Equal(t, []string{"eve"}, l.Exceptions().Blocked, "what can be read holds")
	require.NoError(t, client.Del(ctx, redisstore.ExceptionsKey(s, "api")).Err())
	require.NoError(t, s.ReadExceptions(ctx, l))
	require.Error(t, redisstore.New(nil).ReadExceptions(ctx, l))
	assert.Equal(t, []string{"eve"}, l.Exceptions().Blocked, "what was read stays")
	follow(t, s, l)
	require.Eventually(t, func() bool { list, err := s.Exceptions(ctx, "api"); return err == nil && len(list) == 1 }, time.Minute, time.Millisecond, "and who follows puts it back")
}

// An exception for a limit that this version of the policy does not have is
// left out. Blocks and all others hold.
func TestExceptionsThatDoNotFitLeaveTheOthersInForce(t *testing.T) {
	s := exceptionStore(t)
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4).WithName("hour"), core.PerDay(9).WithName("day")}}))
	for key, limits := range map[string][]core.Limit{
		"ann": {core.PerHour(400).WithName("hour")}, "bob": {core.PerHour(400).WithName("hours")}, "bob[0]": {core.PerDay(900).WithName("day")}, "eve": nil,
	} {
		require.NoError(t, s.SetException(t.Context(), "api", redisstore.Exception{Key: key, Limits: limits}))
	}
	require.ErrorContains(t, s.ReadExceptions(t.Context(), l), `"hours" is no limit of the policy`)
	for key, want := range map[string][]int64{"ann": {400, 9}, "bob": {4, 9}, "bob[0]": {4, 900}, "eve": {4, 9}} {
		res, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, key != "eve", res.Allowed, key)
		assert.Equal(t, want, []int64{res.Limits()[0].Limit.Capacity, res.Limits()[1].Limit.Capacity}, key)
	}
}

// What was read holds while Redis is away, until it ends, and after a restart
// without it; the log has one line of each outage, not one for each policy.
func TestExceptionsHoldWhileRedisIsAway(t *testing.T) {
	server := redistest.Start(t)
	var lines logtest.Buffer
	s := redisstore.New(server.Client(t), longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	limiters := []*core.Limiter{limiterOf(s, "a"), limiterOf(s, "b"), limiterOf(s, "c")}
	block(t, s, "a", "eve")
	require.NoError(t, s.SetException(t.Context(), "a", redisstore.Exception{Key: "mallory", For: time.Second}))
	require.NoError(t, s.ReadExceptions(t.Context(), limiters...))
	server.Kill()
	follow(t, s, limiters...)
	logged := func(line string, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return lines.Count(line) >= n }, time.Minute, time.Millisecond, line)
		assert.Equal(t, n, lines.Count(line), lines.String())
	}
	logged("RL718", 1)
	eventually(t, limiters[0], "one ends while Redis is away, and the other one holds", "eve")
	server.Restart(t)
	logged("and was put back", 1)
	block(t, s, "c", "eve")
	eventually(t, limiters[2], "premise: all are read again", "eve")
	assert.Equal(t, []string{"eve"}, limiters[0].Exceptions().Blocked)
	server.Kill()
	logged("RL718", 2)
}

// A shard that hangs concerns its own policies alone.
func TestLostShardConcernsItsOwnExceptions(t *testing.T) {
	servers, addrs := map[string]*redistest.Server{}, map[string]string{}
	for range 2 {
		one := redistest.Start(t)
		servers[one.Addr], addrs[one.Addr] = one, one.Addr
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: time.Hour, ReadTimeout: time.Minute, MaxRetries: -1})
	t.Cleanup(func() { _ = ring.Close() })
	s := redisstore.New(ring, redisstore.WithTimeout(time.Second))
	shardOf := func(key string) string {
		shard, err := ring.GetShardClientForKey(key)
		require.NoError(t, err)
		return shard.Options().Addr
	}
	lost := shardOf("time") // where a Ring sends TIME that has no key
	var safe, doomed *core.Limiter
	for i := 0; safe == nil || doomed == nil; i++ {
		name := fmt.Sprint("policy-", i)
		if shardOf(redisstore.ExceptionsKey(s, name)) == lost {
			doomed = limiterOf(s, name)
		} else {
			safe = limiterOf(s, name)
		}
	}
	follow(t, s, doomed, safe)
	block(t, s, safe.Name(), "eve")
	eventually(t, safe, "premise: it is followed", "eve")
	require.NoError(t, s.SetException(t.Context(), doomed.Name(), redisstore.Exception{Key: "mallory", For: time.Second}))
	require.NoError(t, s.ReadExceptions(t.Context(), doomed))
	servers[lost].Pause()
	t.Cleanup(servers[lost].Resume)
	block(t, s, safe.Name(), "mallory")
	eventually(t, safe, "exceptions on a shard that answers are read while another hangs", "eve", "mallory")
	eventually(t, doomed, "an exception ends in time, also while its shard hangs")
}

// A user who may not write keeps what it has read, and says so once; another
// process puts it back.
func TestProcessWithoutTheRightToWriteObeys(t *testing.T) {
	server := redistest.Start(t)
	admin, ctx := server.Client(t), t.Context()
	require.NoError(t, admin.Do(ctx, "ACL", "SETUSER", "reader", "on", ">secret", "~ratelimit:*", "-@all", "+@connection", "+evalsha", "+eval", "+hget", "+hgetall", "+hlen", "+hdel", "+time").Err())
	var lines logtest.Buffer
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "reader", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	reader := redisstore.New(client, longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	writer := redisstore.New(admin, longTimeout)
	l, other := limiterOf(reader, "api"), limiterOf(writer, "api")
	block(t, writer, "api", "eve")
	require.NoError(t, writer.ReadExceptions(ctx, other))
	follow(t, reader, l)
	eventually(t, l, "premise: it reads", "eve")
	require.NoError(t, admin.FlushAll(ctx).Err())
	require.Eventually(t, func() bool { return lines.Count("could not be put back") > 0 }, time.Minute, time.Millisecond)
	assert.Regexp(t, `level=WARN .* code=RL719 policy=api error=".+`, lines.String(), "it says why")
	block(t, writer, "api", "bob")
	eventually(t, l, "it obeys all the same, also what is new", "bob", "eve")
	assert.Equal(t, 1, lines.Count("RL719"), lines.String())
	follow(t, writer, other)
	require.Eventually(t, func() bool { list, err := writer.Exceptions(ctx, "api"); return err == nil && len(list) == 2 }, time.Minute, time.Millisecond, "who may write does")
}

// trips is a hook that notes the commands of each round trip.
type trips struct {
	redistest.Hook

	made chan []string
}

func (h trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.made <- []string{cmd.Name()}
		return next(ctx, cmd)
	}
}

func (h trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		h.made <- names
		return next(ctx, cmds)
	}
}

// A poll is one round trip for all policies, which reads no hash that has not
// changed. Polls end with the context, or with the client.
func TestPollIsOneRoundTripForAllPolicies(t *testing.T) {
	client := redistest.Client(t)
	s := storeOn(client)
	block(t, s, "a", "eve")
	block(t, s, "b", "eve")
	limiters := []*core.Limiter{limiterOf(s, "a"), limiterOf(s, "b"), limiterOf(s, "c")}
	require.NoError(t, s.ReadExceptions(t.Context(), limiters...))
	count := trips{made: make(chan []string, 100_000)}
	client.AddHook(count)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { redisstore.FollowExceptions(ctx, s, time.Millisecond, limiters...) })
	for range 100 {
		require.Equal(t, []string{"hget", "hget", "hget"}, <-count.made)
	}
	cancel()
	running.Wait()
	running.Go(func() { redisstore.FollowExceptions(context.Background(), s, time.Millisecond, limiters...) })
	require.Eventually(t, func() bool { return len(s.Stats().Exceptions) == 3 }, time.Minute, time.Millisecond)
	require.NoError(t, client.Close())
	running.Wait()
	assert.Empty(t, s.Stats().Exceptions)
	redisstore.New(nil).FollowExceptions(context.Background(), limiters...) // returns at once
}

// What is in force, and since when, is known without asking Redis.
func TestStatsOfExceptions(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	l := limiterOf(s, "api")
	require.NoError(t, s.ReadExceptions(ctx, l))
	assert.Empty(t, s.Stats().Exceptions, "nobody follows")
	block(t, s, "api", "eve")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "bob", For: 50 * time.Millisecond}))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.PerDay(9)}, By: "zoe", Reason: "launch"}))
	follow(t, s, l)
	require.Eventually(t, func() bool {
		list := s.Stats().Exceptions
		return len(list) == 1 && list[0].Policy == "api" && list[0].Blocks == 1 && list[0].Overrides == 1 && list[0].Age < time.Minute && list[0].Version > 0
	}, time.Minute, time.Millisecond, "one of three has ended")
	assert.Equal(t, "zoe", l.Exceptions().OverrideNotes["ann"].By)

	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = away.Close() })
	s = redisstore.New(away, core.WithLogger(slog.New(slog.DiscardHandler)))
	follow(t, s, l)
	require.Eventually(t, func() bool { list := s.Stats().Exceptions; return len(list) == 1 && list[0].Age > 20*time.Millisecond }, time.Minute, time.Millisecond,
		"it grows from the start while nothing can be read")
}
