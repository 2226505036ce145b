package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
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

// blocked waits until a limiter blocks key.
func blocked(t *testing.T, l *core.Limiter, key, rule string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Contains(l.Exceptions().Blocked, key) }, time.Minute, time.Millisecond, rule)
	res, err := l.Allow(t.Context(), key)
	require.NoError(t, err)
	require.False(t, res.Allowed, rule)
}

// exceptUntil sets an exception that ends soon, again and again until somebody
// has seen it: on a slow machine it may end before.
func exceptUntil(t *testing.T, s *redisstore.Store, policy string, e redisstore.Exception, seen func() bool, rule string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		require.NoError(t, s.SetException(t.Context(), policy, e))
		for end := time.Now().Add(e.For); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if seen() {
				return
			}
		}
	}
	t.Fatal(rule)
}

func TestProcessesFollowExceptions(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}, OnFailure: core.FailClosed}
	a, b := core.Must(core.NewLimiter(s, policy)), core.Must(core.NewLimiter(s, policy))
	policy.Name = "other"
	other := core.Must(core.NewLimiter(s, policy))
	idle := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: policy.Limits}))
	follow(t, s, a, nil, b, other)
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.PerDay(50)}}))
	limittest.ComesBack(t, a, "ann", 50, "an override")
	limittest.ComesBack(t, b, "ann", 50, "in every process")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}))
	blocked(t, b, "ann", "a block")
	limittest.ComesBack(t, b, "joe", 5, "others keep their limits")
	limittest.ComesBack(t, other, "ann", 5, "policies have exceptions of their own")
	limittest.ComesBack(t, idle, "ann", 5, "who does not follow reads nothing")
	_, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: "ann"})
	require.NoError(t, err)
	limittest.ComesBack(t, a, "ann", 50, "the override holds after the block")
	exceptUntil(t, s, "api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.PerDay(40)}, For: 300 * time.Millisecond},
		func() bool { return limittest.Left(t, a, "ann") == 40 }, "an override of a time")
	limittest.ComesBack(t, a, "ann", 5, "it ends by itself")
}

func TestReadExceptionsBeforeTheFirstRequest(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "eve"}))
	require.NoError(t, s.ReadExceptions(ctx, l))
	res, err := l.Allow(ctx, "eve")
	require.NoError(t, err)
	assert.False(t, res.Allowed)
	require.NoError(t, redistest.Client(t).HSet(ctx, redisstore.ExceptionsKey(s, "api"), "block:mallory", "later").Err())
	require.Error(t, s.ReadExceptions(ctx, l))
	assert.Equal(t, []string{"eve"}, l.Exceptions().Blocked, "what can be read holds")
	require.Error(t, redisstore.New(nil).ReadExceptions(ctx, l))
	assert.Equal(t, []string{"eve"}, l.Exceptions().Blocked, "what was read stays")
}

// What was read holds while Redis is away, until it ends; the log has one line
// of an outage.
func TestExceptionsHoldWhileRedisIsAway(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	var lines logtest.Buffer
	s := redisstore.New(client, longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	others := []*core.Limiter{l}
	for _, name := range []string{"b", "c", "d"} {
		others = append(others, core.Must(core.NewLimiter(s, core.Policy{Name: name, Limits: []core.Limit{core.PerDay(5)}})))
	}
	follow(t, s, others...)
	require.NoError(t, s.SetException(t.Context(), "api", redisstore.Exception{Key: "eve"}))
	exceptUntil(t, s, "api", redisstore.Exception{Key: "mallory", For: 2 * time.Second}, func() bool { return len(l.Exceptions().Blocked) == 2 }, "premise: both hold")
	server.Kill()
	require.Eventually(t, func() bool { return lines.Count("RL718") > 0 }, 20*time.Second, time.Millisecond, "the failure is logged")
	require.Eventually(t, func() bool { return len(l.Exceptions().Blocked) == 1 }, 20*time.Second, time.Millisecond, "one ends while Redis is away")
	assert.Equal(t, []string{"eve"}, l.Exceptions().Blocked, "the other one holds")
	assert.Equal(t, 1, lines.Count("RL718"), "an outage is logged once, not for each policy")
	server.Restart(t) // without what it had
	require.Eventually(t, func() bool { return lines.Count("RL719") > 0 }, 20*time.Second, time.Millisecond, "Redis has lost the other one")
	assert.Equal(t, []string{"eve"}, l.Exceptions().Blocked, "it still holds")
	require.NoError(t, s.SetException(t.Context(), "d", redisstore.Exception{Key: "eve"}))
	require.Eventually(t, func() bool { return len(others[3].Exceptions().Blocked) == 1 }, 20*time.Second, time.Millisecond, "premise: all are read again")
	server.Kill()
	require.Eventually(t, func() bool { return lines.Count("RL718") > 1 }, 20*time.Second, time.Millisecond, "the next outage is logged")
}

// Who follows anew forgets what was in force before, such as exceptions that
// were removed while nobody followed.
func TestFollowersBeginWithWhatRedisHas(t *testing.T) {
	s := exceptionStore(t)
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	require.NoError(t, l.SetExceptions(core.Exceptions{Blocked: []string{"eve"}}))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { redisstore.FollowExceptions(ctx, s, time.Hour, l) })
	require.Eventually(t, func() bool { return len(l.Exceptions().Blocked) == 0 }, 20*time.Second, time.Millisecond, "Redis has none, and the first poll sees that")
	cancel()
	running.Wait()
}

// What changes without the version, such as the clock of Redis, is seen too,
// only later.
func TestFollowersReadAgain(t *testing.T) {
	client, s := redistest.Client(t), exceptionStore(t)
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	require.NoError(t, s.SetException(t.Context(), "api", redisstore.Exception{Key: "eve"}))
	follow(t, s, l)
	blocked(t, l, "eve", "a block")
	require.NoError(t, client.HSet(t.Context(), redisstore.ExceptionsKey(s, "api"), "block:eve", `4000000000000000 9 7 {"blocked":true}`).Err())
	require.Eventually(t, func() bool { return len(l.Exceptions().Blocked) == 0 }, 20*time.Second, time.Millisecond, "one that has ended without a new version")
}

// An exception that can't be read is logged once, and the others hold.
func TestFollowersLogWhatTheyCantRead(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	var lines logtest.Buffer
	s := redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	require.NoError(t, client.HSet(t.Context(), redisstore.ExceptionsKey(s, "api"), "override:secret", "0 later").Err())
	require.NoError(t, s.SetException(t.Context(), "api", redisstore.Exception{Key: "eve"}))
	follow(t, s, l)
	blocked(t, l, "eve", "the others hold")
	time.Sleep(20 * time.Millisecond) // ten polls
	assert.Equal(t, 1, lines.Count("RL718"), lines.String())
	assert.NotContains(t, lines.String(), "secret")
}

// A poll costs one command for each limiter, and stops with the context.
func TestFollowersAskForTheVersionAlone(t *testing.T) {
	client := redistest.Client(t)
	count := &commands{}
	client.AddHook(count)
	s := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout)
	require.NoError(t, s.SetException(t.Context(), "api", redisstore.Exception{Key: "eve"}))
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	wrote := count.of("evalsha")
	running.Go(func() { redisstore.FollowExceptions(ctx, s, time.Millisecond, l) })
	require.Eventually(t, func() bool { return count.of("hget") > 10 }, 20*time.Second, time.Millisecond)
	cancel()
	running.Wait()
	assert.Equal(t, 1+count.of("hget")/60, count.of("evalsha")-wrote, "exceptions are read once, and seldom without a change")
	redisstore.New(nil).FollowExceptions(ctx, l) // returns at once
}

// commands counts commands by name.
type commands struct {
	redistest.Hook
	mu     sync.Mutex
	counts map[string]int
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

func (c *commands) count(cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	for _, cmd := range cmds {
		c.counts[cmd.Name()]++
	}
}

func (c *commands) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

// A shard that hangs concerns its own policies alone: neither the order of
// polls nor the time may depend on it.
func TestLostShardConcernsItsOwnExceptions(t *testing.T) {
	servers := map[string]*redistest.Server{}
	addrs := map[string]string{}
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
		l := core.Must(core.NewLimiter(s, core.Policy{Name: name, Limits: []core.Limit{core.PerDay(5)}}))
		if shardOf(redisstore.ExceptionsKey(s, name)) == lost {
			doomed = l
		} else {
			safe = l
		}
	}
	blocked := func(l *core.Limiter, n int) func() bool {
		return func() bool { return len(l.Exceptions().Blocked) == n }
	}
	follow(t, s, doomed, safe)
	for _, l := range []*core.Limiter{doomed, safe} {
		require.NoError(t, s.SetException(t.Context(), l.Name(), redisstore.Exception{Key: "eve"}))
		require.Eventually(t, blocked(l, 1), 20*time.Second, time.Millisecond, "the premise: both are followed")
	}
	exceptUntil(t, s, doomed.Name(), redisstore.Exception{Key: "mallory", For: 5 * time.Second}, blocked(doomed, 2), "premise: it is followed")
	servers[lost].Pause()
	t.Cleanup(servers[lost].Resume)
	require.NoError(t, s.SetException(t.Context(), safe.Name(), redisstore.Exception{Key: "mallory"}))
	require.Eventually(t, blocked(safe, 2), 20*time.Second, time.Millisecond, "exceptions on a shard that answers are read while another hangs")
	require.Eventually(t, blocked(doomed, 1), 20*time.Second, time.Millisecond, "an exception ends in time, also while its shard hangs")
}

// A user who may not write keeps what it has read, and says so once; another
// process puts it back.
func TestProcessWithoutTheRightToWriteObeys(t *testing.T) {
	server := redistest.Start(t)
	admin, ctx := server.Client(t), t.Context()
	require.NoError(t, admin.Do(ctx, "ACL", "SETUSER", "reader", "on", ">secret", "~ratelimit:*", "-@all", "+@connection", "+evalsha", "+eval", "+hget", "+hgetall", "+hlen", "+del", "+time").Err())
	var lines logtest.Buffer
	process := func(client *redis.Client) (*redisstore.Store, *core.Limiter) {
		s := redisstore.New(client, longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		return s, core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}, OnFailure: core.FailOpen}))
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "reader", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	reader, l := process(client)
	writer, other := process(admin)
	for _, e := range []redisstore.Exception{{Key: "eve"}, {Key: "ann", Limits: []core.Limit{core.PerDay(9)}}} {
		require.NoError(t, writer.SetException(ctx, "api", e))
	}
	require.NoError(t, writer.ReadExceptions(ctx, other))
	follow(t, reader, l)
	blocked(t, l, "eve", "the premise: it reads")
	require.NoError(t, admin.FlushAll(ctx).Err())
	require.Eventually(t, func() bool { return lines.Count("could not be put back") > 0 }, 20*time.Second, time.Millisecond)
	assert.Regexp(t, `level=WARN .* code=RL719 policy=api blocks=1 overrides=1 removals=0 error=".+`, lines.String(), "it says what is missing, and why")
	blocked(t, l, "eve", "it obeys all the same")
	require.NoError(t, writer.SetException(ctx, "api", redisstore.Exception{Key: "bob"}))
	blocked(t, l, "bob", "newer words too")
	blocked(t, l, "eve", "and older ones")
	assert.Equal(t, 1, lines.Count("RL719"), lines.String())

	list, err := writer.Exceptions(ctx, "api")
	require.NoError(t, err)
	assert.Len(t, list, 1, "nothing was deleted by a user that may delete, and not write")
	follow(t, writer, other)
	require.Eventually(t, func() bool { return lines.Count("and was put back") == 1 }, 20*time.Second, time.Millisecond, "who may write does")
	list, err = writer.Exceptions(ctx, "api")
	require.NoError(t, err)
	assert.Len(t, list, 3)
	assert.NotContains(t, lines.String(), "ann", "no line shows a key")
}

// An operator's removal holds although Redis has lost what it removes, and
// ReadExceptions ends nothing that was lost.
func TestUnblockWinsOnAnEmptyRedis(t *testing.T) {
	client, s, ctx := redistest.Client(t), exceptionStore(t), t.Context()
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "eve"}))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "mallory"}))
	require.NoError(t, s.ReadExceptions(ctx, l))
	require.NoError(t, client.Del(ctx, redisstore.ExceptionsKey(s, "api")).Err())
	require.NoError(t, s.ReadExceptions(ctx, l))
	assert.Equal(t, []string{"eve", "mallory"}, l.Exceptions().Blocked, "absence is no removal")
	was, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: "eve"})
	require.NoError(t, err)
	assert.False(t, was, "Redis had none")
	follow(t, s, l)
	require.Eventually(t, func() bool {
		list, err := s.Exceptions(ctx, "api")
		return err == nil && len(list) == 1 && list[0].Key == "mallory"
	}, 20*time.Second, time.Millisecond, "the other one is put back")
	require.Eventually(t, func() bool { return slices.Equal(l.Exceptions().Blocked, []string{"mallory"}) }, 20*time.Second, time.Millisecond, "an operator's word ends a block that Redis has lost")
}

// What is in force, and since when, is known without asking Redis.
func TestStatsOfExceptions(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	require.NoError(t, s.ReadExceptions(ctx, l))
	assert.Empty(t, s.Stats().Exceptions, "nobody follows")
	following, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { redisstore.FollowExceptions(following, s, time.Millisecond, l) })
	for _, e := range []redisstore.Exception{{Key: "eve"}, {Key: "bob", For: 50 * time.Millisecond}, {Key: "ann", Limits: []core.Limit{core.PerDay(9)}}} {
		require.NoError(t, s.SetException(ctx, "api", e))
	}
	require.Eventually(t, func() bool {
		list := s.Stats().Exceptions
		return len(list) == 1 && list[0].Policy == "api" && list[0].Blocks == 1 && list[0].Overrides == 1 && list[0].Age < time.Minute
	}, 20*time.Second, time.Millisecond, "one of three has ended")
	stop()
	running.Wait()
	assert.Empty(t, s.Stats().Exceptions)

	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = away.Close() })
	s = redisstore.New(away)
	follow(t, s, l)
	age := func() time.Duration {
		if list := s.Stats().Exceptions; len(list) == 1 {
			return list[0].Age
		}
		return 0
	}
	require.Eventually(t, func() bool { return age() > 20*time.Millisecond }, 20*time.Second, time.Millisecond, "it grows from the start while nothing can be read")
}

// What Redis has lost comes back with its author and reason.
func TestWhatComesBackKeepsItsAuthor(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), t.Context()
	s := redisstore.New(client, longTimeout)
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	set := []redisstore.Exception{{Key: "ann", Limits: []core.Limit{core.PerDay(9)}, By: "bob", Reason: "launch"}, {Key: "eve", By: "zoe", Reason: "scraper"}}
	for _, e := range set {
		require.NoError(t, s.SetException(ctx, "api", e))
	}
	follow(t, s, l)
	blocked(t, l, "eve", "the premise: it follows")
	require.Equal(t, map[string]store.ExceptionNote{"eve": {By: "zoe", Reason: "scraper"}}, l.Exceptions().BlockNotes)
	server.Kill()
	server.Restart(t)
	require.Eventually(t, func() bool { list, err := s.Exceptions(ctx, "api"); return err == nil && len(list) == 2 }, 20*time.Second, time.Millisecond)
	list, err := s.Exceptions(ctx, "api")
	require.NoError(t, err)
	for i, e := range list {
		e.Limits = nil
		set[i].Limits = nil
		assert.Equal(t, set[i], e)
	}
}

// What limiters obey, whose it is, of which version and how old, is what Redis
// has.
func TestLimitersSayWhatTheyFollow(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}
	l := core.Must(core.NewLimiter(s, policy))
	assert.Equal(t, store.Following{}, l.Following(), "nobody has read anything")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.PerDay(9)}, By: "bob", Reason: "launch", For: time.Hour}))
	began := time.Now()
	require.NoError(t, s.ReadExceptions(ctx, l))
	version := func() int64 {
		t.Helper()
		text, err := redistest.Client(t).HGet(ctx, redisstore.ExceptionsKey(s, "api"), "").Result()
		require.NoError(t, err)
		stamp, _, _ := strings.Cut(text, " ")
		v, err := strconv.ParseInt(stamp, 10, 64)
		require.NoError(t, err)
		return v
	}
	f := l.Following()
	assert.Equal(t, version(), f.Version)
	assert.True(t, f.Since.IsZero(), "read once, and not followed")
	assert.False(t, f.Read.Before(began) || f.Read.After(time.Now()))
	note := l.Exceptions().OverrideNotes["ann"]
	assert.WithinDuration(t, time.Now().Add(time.Hour), note.Until, time.Minute)
	note.Until = time.Time{}
	assert.Equal(t, store.ExceptionNote{By: "bob", Reason: "launch"}, note)

	following, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { redisstore.FollowExceptions(following, s, time.Millisecond, l) })
	for i := range 5 {
		require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: fmt.Sprint(i), By: "bob"}))
		want := version()
		require.Eventually(t, func() bool { return l.Following().Version == want }, 20*time.Second, time.Millisecond)
		assert.Len(t, l.Exceptions().Blocked, i+1, "the version is of what is in force")
		stored := l.WithStoredKeys()
		assert.Equal(t, l.Following(), stored.Following(), "limiters of one policy share it")
		assert.Equal(t, want, s.Stats().Exceptions[0].Version)
	}
	assert.False(t, l.Following().Since.IsZero())
	read := l.Following().Read
	require.Eventually(t, func() bool { return l.Following().Read.After(read) }, 20*time.Second, time.Millisecond, "each poll counts, also without a change")
	_, follows := l.Following().Age(time.Now())
	assert.True(t, follows)
	stop()
	running.Wait()
	assert.True(t, l.Following().Since.IsZero(), "nobody follows any more")
	assert.Equal(t, version(), l.Following().Version, "what was read stays in force")
}

// An override that the policy can't use is not in force, and no statistic says
// so.
func TestStatsCountWhatIsInForce(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5).WithName("day")}}))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.PerDay(9).WithName("no such limit")}}))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "bob", Limits: []core.Limit{core.PerDay(9).WithName("day")}, By: "eve"}))
	follow(t, s, l)
	require.Eventually(t, func() bool { return l.Following().Version > 0 }, 20*time.Second, time.Millisecond)
	stats := s.Stats().Exceptions
	require.Len(t, stats, 1)
	assert.Equal(t, 1, stats[0].Overrides)
	assert.Equal(t, "eve", l.Exceptions().OverrideNotes["bob"].By, "its author is known beside one that can't be used")
}

// After any changes, limiters obey what a model does.
func TestWhatIsInForceAgreesWithAModel(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	rng := rand.New(rand.NewPCG(1, 2))
	type field struct {
		key      string
		override bool
	}
	inForce := map[field]store.ExceptionNote{}
	for i := range 200 {
		f := field{fmt.Sprint("user:", rng.IntN(6)), rng.IntN(2) == 0}
		note := store.ExceptionNote{By: fmt.Sprint("operator ", rng.IntN(3)), Reason: fmt.Sprint(i)}
		if rng.IntN(3) == 0 {
			_, had := inForce[f]
			was, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: f.key, Override: f.override, By: note.By, Reason: note.Reason})
			require.NoError(t, err)
			assert.Equal(t, had, was)
			delete(inForce, f)
		} else {
			e := redisstore.Exception{Key: f.key, By: note.By, Reason: note.Reason}
			if f.override {
				e.Limits = []core.Limit{{Times: float64(1 + i%9)}}
			}
			require.NoError(t, s.SetException(ctx, "api", e))
			inForce[f] = note
		}
		if i%20 > 0 {
			continue
		}
		require.NoError(t, s.ReadExceptions(ctx, l))
		obeyed, e := map[field]store.ExceptionNote{}, l.Exceptions()
		for key := range e.Overrides {
			obeyed[field{key, true}] = e.OverrideNotes[key]
		}
		for _, key := range e.Blocked {
			obeyed[field{key, false}] = e.BlockNotes[key]
		}
		require.Equal(t, inForce, obeyed, "after change %d", i)
	}
}
