package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// history is that of a policy, without instants.
func history(t *testing.T, s *redisstore.Store, policy string) (list []redisstore.Change) {
	t.Helper()
	list, err := s.History(t.Context(), policy)
	require.NoError(t, err)
	for i := range list {
		list[i].At = time.Time{}
	}
	return list
}

func TestHistorySaysWhoChangedWhatWhenAndWhy(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	before := client.Time(ctx).Val().Truncate(time.Millisecond)
	for _, policy := range []string{"api", "a:b{c}%", "%history"} {
		hostile := redisstore.Exception{Key: "k:é \x00\n\x1b[2J<b>\xff", For: time.Hour, By: "<script>", Reason: strings.Repeat("\u202e", 85)}
		require.NoError(t, s.SetException(ctx, policy, redisstore.Exception{Key: "ann", Limits: []core.Limit{core.Limit{Times: 10}}, By: "bob", Reason: "launch"}))
		require.NoError(t, s.SetException(ctx, policy, redisstore.Exception{Key: "ann", Limits: []core.Limit{core.Limit{Times: 20}}, By: "bob"}))
		require.NoError(t, s.SetException(ctx, policy, hostile))
		for _, r := range []redisstore.Removal{{Key: "ann", Override: true, By: "eve", Reason: "over"}, {Key: hostile.Key, By: "zoe"}, {Key: "nobody"}} {
			_, err := s.RemoveException(ctx, policy, r)
			require.NoError(t, err)
		}
		list, err := s.History(ctx, policy)
		require.NoError(t, err)
		after := client.Time(ctx).Val()
		for _, c := range list {
			assert.False(t, c.At.Before(before) || c.At.After(after), "%v is by the clock of Redis", c.At)
		}
		assert.Equal(t, []redisstore.Change{
			{Kind: "unblock", Key: "nobody"},
			{Kind: "unblock", Key: hostile.Key, By: "zoe", Had: true},
			{Kind: "remove", Key: "ann", By: "eve", Reason: "over", Had: true},
			{Kind: "block", Key: hostile.Key, For: time.Hour, By: "<script>", Reason: hostile.Reason},
			{Kind: "override", Key: "ann", Limits: []core.Limit{core.Limit{Times: 20}}, By: "bob", Had: true},
			{Kind: "override", Key: "ann", Limits: []core.Limit{core.Limit{Times: 10}}, By: "bob", Reason: "launch"},
		}, history(t, s, policy), policy)
	}
	for b, err := range s.Buckets(ctx, "", 0) {
		require.NoError(t, err)
		assert.Fail(t, "a history is no bucket", b)
	}
	policies, err := s.ExceptionPolicies(ctx, 0)
	require.NoError(t, err)
	assert.Equal(t, []string{"%history", "a:b{c}%", "api"}, policies)
	assert.Empty(t, history(t, s, "other"))
	_, err = s.RemoveException(ctx, "api", redisstore.Removal{Key: "ann", By: "a\nb", Reason: strings.Repeat("x", 257)})
	require.ErrorContains(t, err, `RemoveException by: "a\nb" must be one line`)
	require.ErrorContains(t, err, "RemoveException reason: ")
}

// An error changes nothing, so it is no change.
func TestHistoryHasWhatWasWrittenAlone(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	require.Error(t, s.SetException(ctx, "api", redisstore.Exception{}))
	require.NoError(t, s.CopyException(ctx, "api", redisstore.Exception{Key: "ann"}))
	assert.Empty(t, history(t, s, "api"), "a copy is no change")
}

// Several writers lose none of the last changes, and Redis keeps no more.
func TestHistoryKeepsTheLastChanges(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	var writing sync.WaitGroup
	for w := range 4 {
		writing.Go(func() {
			for i := range redisstore.MaxHistory/4 + 5 {
				assert.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", By: fmt.Sprintf("%d %d", w, i)}))
			}
		})
	}
	writing.Wait()
	list := history(t, s, "api")
	require.Len(t, list, redisstore.MaxHistory)
	assert.EqualValues(t, redisstore.MaxHistory, client.HLen(ctx, redisstore.HistoryKey(s, "api")).Val())
	next := map[string]int{}
	for _, c := range list {
		var w, i int
		_, err := fmt.Sscan(c.By, &w, &i)
		require.NoError(t, err)
		if last, seen := next[fmt.Sprint(w)]; seen {
			assert.Equal(t, last-1, i, "writer %d: the newest first, and none is missing", w)
		}
		next[fmt.Sprint(w)] = i
	}
}

func TestHistoryLivesAsLongAsTheExceptions(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	same := func(rule string) {
		t.Helper()
		of := client.PTTL(ctx, redisstore.ExceptionsKey(s, "api")).Val()
		assert.InDelta(t, of, client.PTTL(ctx, redisstore.HistoryKey(s, "api")).Val(), float64(5*time.Second), rule)
	}
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", For: time.Hour}))
	same("with an end")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "zoe"}))
	require.Equal(t, time.Duration(-1), client.PTTL(ctx, redisstore.HistoryKey(s, "api")).Val(), "one without an end has no TTL")
	_, err := s.Unblock(ctx, "api", "zoe")
	require.NoError(t, err)
	same("the last one without an end is gone")
	_, err = s.ForgetHistory(ctx, "api", "zoe")
	require.NoError(t, err)
	same("what is dropped changes no TTL")
}

// One script has both keys, so they need one slot, whatever the prefix and the
// policy's name.
func TestHistoryIsInTheSlotOfItsExceptions(t *testing.T) {
	for prefix, has := range map[string]bool{
		"ratelimit:": true, "": true, "a:b:": true, "{limits}:": true, "x{limits}:": true, "{}:": false, "}{": false, "a}b:": false, "a{b:": false,
	} {
		s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(prefix))
		for _, policy := range []string{"api", "a:b{c}%", "{api}", "%"} {
			exceptions, history := redisstore.ExceptionsKey(s, policy), redisstore.HistoryKey(s, policy)
			if assert.Equal(t, has, history != "", "%q has a history", prefix); has {
				assert.Equal(t, redisstore.SlotOf(exceptions), redisstore.SlotOf(history), "%q %q", prefix, policy)
				assert.True(t, strings.HasPrefix(history, prefix), "an ACL that knows the prefix suffices")
			}
		}
	}
	s, ctx := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()+"{"), longTimeout), t.Context()
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}), "what has no history has exceptions")
	list, err := s.Exceptions(ctx, "api")
	require.NoError(t, err)
	assert.Len(t, list, 1)
	_, err = s.History(ctx, "api")
	require.ErrorContains(t, err, "half a hash tag")
}

func TestHistoryOfACluster(t *testing.T) {
	server, ctx := redistest.Start(t, "--cluster-enabled", "yes"), t.Context() // it refuses scripts whose keys are in several slots
	admin := server.Client(t)
	require.NoError(t, admin.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	require.Eventually(t, func() bool { return strings.Contains(admin.ClusterInfo(ctx).Val(), "cluster_state:ok") }, 20*time.Second, time.Millisecond)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}})
	t.Cleanup(func() { _ = client.Close() })
	s := redisstore.New(client, longTimeout)
	for i := range 20 {
		policy := fmt.Sprint("policy-", i)
		require.NoError(t, s.SetException(ctx, policy, redisstore.Exception{Key: "ann", By: "bob"}))
		assert.Equal(t, []redisstore.Change{{Kind: "block", Key: "ann", By: "bob"}}, history(t, s, policy))
	}
}

// The user of docs/operations.md suffices, and what a user may not do with the
// history keeps nobody from blocking.
func TestHistoryNeedsNoOtherRights(t *testing.T) {
	server := redistest.Start(t)
	admin, ctx := server.Client(t), t.Context()
	require.NoError(t, admin.Do(ctx, "ACL", "SETUSER", "limiter", "on", ">secret", "~ratelimit:*", "-@all", "+@connection", "+evalsha", "+eval", "+get", "+set", "+setrange",
		"+hset", "+hget", "+hdel", "+hgetall", "+hlen", "+pexpire", "+pttl", "+del", "+time", "+info").Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "limiter", Password: "secret"})
	t.Cleanup(func() { _ = client.Close() })
	s := redisstore.New(client, longTimeout)
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", By: "bob"}))
	assert.Len(t, history(t, s, "api"), 1)
	n, err := s.ForgetHistory(ctx, "api", "ann")
	require.NoError(t, err)
	assert.EqualValues(t, 1, n)
	require.NoError(t, admin.Do(ctx, "ACL", "SETUSER", "limiter", "-hlen").Err())
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "zoe"}))
	assert.Len(t, history(t, s, "api"), 1, "as with exceptions, hlen is not needed")
}

// A foreign key in its place, and a full memory, keep nobody from blocking.
func TestHistoryKeepsNobodyFromBlocking(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), t.Context()
	s := redisstore.New(client, longTimeout)
	key := redisstore.HistoryKey(s, "api")
	require.NoError(t, client.Set(ctx, key, "a foreign value", 0).Err())
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}))
	assert.Equal(t, "a foreign value", client.Get(ctx, key).Val())
	_, err := s.History(ctx, "api")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorContains(t, err, "is not of this package: rename it")
	require.NoError(t, client.Del(ctx, key).Err())
	for i := range 10_001 {
		require.NoError(t, client.HSet(ctx, key, fmt.Sprint("foreign ", i), "value").Err())
	}
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}))
	_, err = s.History(ctx, "api")
	require.ErrorContains(t, err, "10001 fields")
	require.NoError(t, client.Del(ctx, key).Err())

	require.NoError(t, client.HSet(ctx, key, "foreign", "value", "7", "no change", "8", "9:block:ann1 1 1 1 {}", "9", "-1:", "10", "99999999999999999999:", "12", "9223372036854775807:x 1 1 1 {}", "13", "1:", "14", "0:1 ", "15", "7:restore0 1 1 0 x", "16", "6:block:1 1 1 1 {}", "11", "5:abcde1 5 5 5 {}").Err())
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "eve"}))
	assert.Equal(t, []string{"block eve", "unblock ann"}, changesOf(history(t, s, "api")), "what can't be read is left out")
	assert.Equal(t, "value", client.HGet(ctx, key, "foreign").Val(), "and stays")
}

func changesOf(list []redisstore.Change) (texts []string) {
	for _, c := range list {
		texts = append(texts, strings.TrimSpace(c.Kind+" "+c.Key))
	}
	return texts
}

// Copies add up, also twice, and keep instants. The newest are kept.
func TestHistorySurvivesACopy(t *testing.T) {
	from, to, ctx := exceptionStore(t), exceptionStore(t), t.Context()
	require.NoError(t, to.SetException(ctx, "public", redisstore.Exception{Key: "first"}))
	for i := range redisstore.MaxHistory - 1 {
		require.NoError(t, from.SetException(ctx, "api", redisstore.Exception{Key: fmt.Sprint(i)}))
	}
	require.NoError(t, to.SetException(ctx, "public", redisstore.Exception{Key: "last"}))
	for range 2 {
		require.NoError(t, from.CopyHistory(ctx, "api", to, "public"))
		list, err := to.History(ctx, "public")
		require.NoError(t, err)
		require.Len(t, list, redisstore.MaxHistory, "the oldest one is dropped")
		assert.Equal(t, "last", list[0].Key)
		copied, err := from.History(ctx, "api")
		require.NoError(t, err)
		assert.Equal(t, copied, list[1:], "with their instants")
	}
	require.NoError(t, from.CopyHistory(ctx, "other", to, "other"))
	assert.Empty(t, history(t, to, "other"))
	long := strings.Repeat("k", 1000)
	require.NoError(t, to.SetException(ctx, "public", redisstore.Exception{Key: long}))
	for key, want := range map[string]int64{"last": 1, "nobody": 0, "98": 1, long: 1} {
		n, err := to.ForgetHistory(ctx, "public", key)
		require.NoError(t, err)
		assert.Equal(t, want, n, key)
	}
	assert.NotContains(t, changesOf(history(t, to, "public")), "block last")
}

// What Redis has lost comes back with its author and reason, and the history
// says that it was lost.
func TestWhatComesBackKeepsItsAuthor(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), t.Context()
	s := redisstore.New(client, longTimeout)
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	set := []redisstore.Exception{{Key: "ann", Limits: []core.Limit{core.PerDay(9)}, By: "bob", Reason: "launch"}, {Key: "eve", By: "zoe", Reason: "scraper"}}
	for _, e := range set {
		require.NoError(t, s.SetException(ctx, "api", e))
	}
	_, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: "mallory", By: "zoe"})
	require.NoError(t, err)
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
	assert.Equal(t, []redisstore.Change{{Kind: "restore", Lost: 2}}, history(t, s, "api"), "a removal of what nobody blocks is no loss")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "eve", By: "zoe"}))
	assert.Equal(t, []string{"block eve", "restore"}, changesOf(history(t, s, "api")))
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
		v, err := s.ExceptionsVersion(ctx, "api")
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
	v, err := s.ExceptionsVersion(ctx, "other")
	require.NoError(t, err)
	assert.Zero(t, v)
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

// After any changes, what a limiter obeys and what the history says is what a
// model of both has.
func TestHistoryAndWhatIsInForceAgreeWithAModel(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	rng := rand.New(rand.NewPCG(1, 2))
	type field struct {
		key      string
		override bool
	}
	inForce, want := map[field]store.ExceptionNote{}, []redisstore.Change{}
	for i := range 2 * redisstore.MaxHistory {
		f := field{fmt.Sprint("user:", rng.IntN(6)), rng.IntN(2) == 0}
		c := redisstore.Change{Key: f.key, By: fmt.Sprint("operator ", rng.IntN(3)), Reason: fmt.Sprint(i)}
		_, c.Had = inForce[f]
		if rng.IntN(3) == 0 {
			c.Kind = map[bool]string{true: "remove", false: "unblock"}[f.override]
			was, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: f.key, Override: f.override, By: c.By, Reason: c.Reason})
			require.NoError(t, err)
			assert.Equal(t, c.Had, was)
			delete(inForce, f)
		} else {
			c.Kind = "block"
			if f.override {
				c.Kind, c.Limits = "override", []core.Limit{core.Limit{Times: float64(1 + i%9)}}
			}
			require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: f.key, Limits: c.Limits, By: c.By, Reason: c.Reason}))
			inForce[f] = store.ExceptionNote{By: c.By, Reason: c.Reason}
		}
		want = append(want, c)
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
	slices.Reverse(want)
	assert.Equal(t, want[:redisstore.MaxHistory], history(t, s, "api"))
}
