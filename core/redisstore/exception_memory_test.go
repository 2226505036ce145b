package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// follower is a process that polls when a test says so.
type follower struct {
	*Store
	limiter *core.Limiter
	log     *bytes.Buffer
	knows   map[string]int // for a model: the number of the newest word about each key
}

func newFollower(client *redis.Client, prefix string) *follower {
	f := &follower{log: &bytes.Buffer{}, knows: map[string]int{}}
	f.Store = New(client, WithPrefix(prefix), WithTimeout(10*time.Second), core.WithLogger(slog.New(slog.NewTextHandler(f.log, nil))))
	f.limiter = core.Must(core.NewLimiter(f.Store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	f.memory("api").follow(f.limiter)
	return f
}

func (f *follower) polls(t require.TestingT) {
	require.NoError(t, f.poll(context.Background(), []*exceptionMemory{f.memory("api")}))
}

// loses has Redis forget the exceptions.
func (f *follower) loses(t require.TestingT) {
	require.NoError(t, f.batches.client.Del(context.Background(), f.batches.exceptionsKey("api")).Err())
}

func (f *follower) blocks(t require.TestingT, key string) {
	require.NoError(t, f.SetException(context.Background(), "api", Exception{Key: key, By: "ann", Reason: "scraper"}))
}

func (f *follower) unblocks(t require.TestingT, key string) {
	_, err := f.RemoveException(context.Background(), "api", key, "", "")
	require.NoError(t, err)
}

func (f *follower) inRedis(t require.TestingT) (keys []string) {
	list, err := f.Exceptions(context.Background(), "api")
	require.NoError(t, err)
	for _, e := range list {
		keys = append(keys, e.Key)
	}
	return keys
}

// Whatever Redis forgets, and in whatever order processes poll: the newest word
// about each key wins that Redis or a process still knows.
func TestNewestWordWins(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	operator := newFollower(client, prefix)
	rapid.Check(t, func(t *rapid.T) {
		operator.loses(t)
		processes := []*follower{newFollower(client, prefix), newFollower(client, prefix), newFollower(client, prefix)}
		inRedis, said := map[string]int{}, []bool{false} // by number: whether it blocks
		poll := func(p *follower) {
			p.polls(t)
			for key, n := range inRedis {
				p.knows[key] = max(p.knows[key], n)
			}
			inRedis = maps.Clone(p.knows)
			var want []string
			for _, key := range []string{"ann", "bob", "eve"} {
				if said[p.knows[key]] {
					want = append(want, key)
				}
			}
			require.Equal(t, want, p.limiter.Exceptions().Blocked, "what a process obeys")
			require.Equal(t, want, operator.inRedis(t), "what it has put back")
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			i := rapid.IntRange(0, len(processes)-1).Draw(t, "process")
			key := rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "key")
			switch rapid.SampledFrom([]string{"block", "block", "unblock", "poll", "poll", "poll", "lose", "restart"}).Draw(t, "step") {
			case "block":
				operator.blocks(t, key)
				inRedis[key], said = len(said), append(said, true)
			case "unblock":
				operator.unblocks(t, key)
				inRedis[key], said = len(said), append(said, false)
			case "poll":
				poll(processes[i])
			case "lose":
				operator.loses(t)
				inRedis = map[string]int{}
			case "restart":
				processes[i] = newFollower(client, prefix)
			}
		}
		for range 2 {
			for _, p := range processes {
				poll(p)
			}
		}
	})
}

// A replica that takes over lacks the last writes. What is said then has another
// version than what it lacks, so processes read it.
func TestWordsAfterAFailoverAreRead(t *testing.T) {
	f, ctx := newFollower(redistest.Client(t), redistest.Prefix()), t.Context()
	client, key := f.batches.client, f.batches.exceptionsKey("api")
	f.blocks(t, "ann")
	obeyed := 0
	for range 3 { // versions are equal once in 64 times
		replica := client.HGetAll(ctx, key).Val()
		f.blocks(t, "bob")
		f.polls(t)
		f.loses(t)
		require.NoError(t, client.HSet(ctx, key, replica).Err())
		f.blocks(t, "eve")
		f.polls(t)
		if slices.Equal(f.limiter.Exceptions().Blocked, []string{"ann", "bob", "eve"}) {
			obeyed++
			assert.Equal(t, []string{"ann", "bob", "eve"}, f.inRedis(t), "what the replica lacks is put back")
		}
		f.unblocks(t, "bob")
		f.unblocks(t, "eve")
		f.polls(t)
	}
	assert.Positive(t, obeyed)
}

// Redis may have dropped a removal by then.
func TestWhoWasCutOffForAWeekTakesWhatRedisHas(t *testing.T) {
	f := newFollower(redistest.Client(t), redistest.Prefix())
	for away, want := range map[time.Duration][]string{removedFor - time.Minute: {"eve"}, removedFor: nil} {
		f.blocks(t, "eve")
		f.polls(t)
		f.loses(t)
		f.memory("api").confirmed = time.Now().Add(-away)
		f.polls(t)
		assert.Equal(t, want, f.limiter.Exceptions().Blocked, away)
		assert.Equal(t, want, f.inRedis(t), away)
	}
}

// The clock of a server that takes over may be behind, also by hours if it has
// the version.
func TestOperatorWinsOnASlowerClock(t *testing.T) {
	for back, loses := range map[time.Duration]bool{30 * time.Second: true, time.Hour: false} {
		server, now := miniredis.RunT(t), time.Now()
		server.SetTime(now)
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		f := newFollower(client, "")
		f.blocks(t, "zoe")
		server.SetTime(now.Add(2 * time.Minute))
		f.blocks(t, "eve")
		f.polls(t)
		if loses {
			f.loses(t)
		}
		server.SetTime(now.Add(2*time.Minute - back))
		f.unblocks(t, "eve")
		f.polls(t)
		assert.Equal(t, []string{"zoe"}, f.limiter.Exceptions().Blocked, back)
		assert.Equal(t, []string{"zoe"}, f.inRedis(t), back)
	}
}

// An override of a limit that the policy lacks is obeyed when it has the limit.
func TestOverrideWaitsForItsLimit(t *testing.T) {
	f := newFollower(redistest.Client(t), redistest.Prefix())
	require.NoError(t, f.SetException(t.Context(), "api", Exception{Key: "ann", Limits: []core.Limit{core.PerHour(7).WithName("hour")}}))
	f.polls(t)
	f.polls(t)
	assert.Empty(t, f.limiter.Exceptions().Overrides)
	assert.Equal(t, 1, bytes.Count(f.log.Bytes(), []byte("RL718")), f.log.String())
	require.NoError(t, f.limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5), core.PerHour(2).WithName("hour")}}))
	f.memory("api").due = time.Now()
	f.polls(t)
	assert.Contains(t, f.limiter.Exceptions().Overrides, "ann")
}

// What Redis has lost comes back as it was written, also by a later version.
func TestWhatComesBackIsWhatWasWritten(t *testing.T) {
	f, ctx := newFollower(redistest.Client(t), redistest.Prefix()), t.Context()
	client, key := f.batches.client, f.batches.exceptionsKey("api")
	for i, field := range []string{"eve", "\xff\x00{}", "ann"} {
		require.NoError(t, client.HSet(ctx, key, field, fmt.Sprintf(`{"at":%d,"blocked":true,"by":"zoe","why":"x","ticket":7}`, i+1)).Err())
	}
	before := client.HGetAll(ctx, key).Val()
	require.NoError(t, client.HSet(ctx, key, "", "4").Err())
	f.polls(t)
	f.loses(t)
	f.polls(t)
	after := client.HGetAll(ctx, key).Val()
	delete(after, "")
	assert.Equal(t, before, after)
	assert.Contains(t, f.log.String(), "and was put back")
}

// What can't be read may be newer than what a process remembers: it is not
// replaced, and what was read before holds.
func TestNothingIsPutBackOverWhatCantBeRead(t *testing.T) {
	f, ctx := newFollower(redistest.Client(t), redistest.Prefix()), t.Context()
	client, key := f.batches.client, f.batches.exceptionsKey("api")
	f.blocks(t, "mallory")
	f.polls(t)
	require.NoError(t, client.HSet(ctx, key, "mallory", "v2 …").Err())
	require.NoError(t, client.HIncrBy(ctx, key, "", 7).Err())
	for range 5 {
		f.polls(t)
	}
	assert.Equal(t, "v2 …", client.HGet(ctx, key, "mallory").Val())
	assert.Equal(t, []string{"mallory"}, f.limiter.Exceptions().Blocked)
	assert.Equal(t, 1, bytes.Count(f.log.Bytes(), []byte("RL718")), "it is logged once: %s", f.log)
	assert.NotContains(t, f.log.String(), "mallory", "without the key")
	f.unblocks(t, "mallory")
	f.polls(t)
	assert.Empty(t, f.limiter.Exceptions().Blocked, "an operator can repair it")
}

func TestChangesAreLoggedWithByAndWhy(t *testing.T) {
	f := newFollower(redistest.Client(t), redistest.Prefix())
	f.blocks(t, "zoe")
	f.polls(t)
	assert.NotContains(t, f.log.String(), "an operator", "what was there before is no change")
	f.blocks(t, "eve")
	f.polls(t)
	f.polls(t)
	assert.Regexp(t, `level=INFO msg="ratelimit: an operator has changed an exception" policy=api blocked=true limits=\[] removed=false by=ann reason=scraper\n`, f.log.String())
	f.unblocks(t, "eve")
	require.NoError(t, f.SetException(t.Context(), "api", Exception{Key: "bob", Limits: []core.Limit{core.PerDay(7).WithName("api")}}))
	f.polls(t)
	assert.Contains(t, f.log.String(), "removed=true")
	assert.Contains(t, f.log.String(), `limits="[7/day name api]"`)
	assert.Equal(t, 3, bytes.Count(f.log.Bytes(), []byte("an operator")))
	assert.Equal(t, 3, bytes.Count(f.log.Bytes(), []byte("level=INFO")), "one line for each change: %s", f.log)
	f.loses(t)
	f.polls(t)
	assert.Equal(t, 3, bytes.Count(f.log.Bytes(), []byte("an operator")), "what is put back is no change")
}
