package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// Inspect tells what is held, also of many holds, and whether another definition
// wrote it.
func TestInspectTellsWhatIsStored(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	patient := longTimeout
	s := redisstore.New(client, redisstore.WithPrefix(prefix), patient)
	policy := core.Policy{Name: "api", Limits: []core.Limit{
		core.PerDay(1000).WithName("daily"), core.PerDay(5000).WithName("tokens").WithUnit("tokens").WithMaxHold(time.Hour), core.InFlight(200).WithName("slots").WithMaxHold(time.Hour),
	}}
	l := core.Must(core.NewLimiter(s, policy))
	inspect := func(l *core.Limiter, key string) redisstore.BucketState {
		t.Helper()
		found, err := s.Inspect(t.Context(), l.Name(), store.Key(key), l.Limits(key))
		require.NoError(t, err)
		return found
	}
	assert.Zero(t, inspect(l, "ann"), "nothing is stored of a bucket that was never used")
	for range 150 {
		res, err := l.AllowUnits(t.Context(), "ann", core.Units{"tokens": 10})
		require.NoError(t, err)
		require.True(t, res.Allowed)
	}
	found := inspect(l, "ann")
	require.Len(t, found.Limits, 3)
	assert.Equal(t, []int64{0, 1500, 150}, []int64{found.Limits[0].Held, found.Limits[1].Held, found.Limits[2].Held}, "estimates and slots are held")
	assert.Greater(t, found.Expires, time.Hour)
	for i, limit := range found.Limits {
		assert.False(t, limit.Changed, "the policy wrote %s", limit.Limit.Name)
		assert.Equal(t, policy.Limits[i].Capacity, limit.Capacity)
		assert.WithinDuration(t, time.Now(), limit.Written, time.Minute)
	}
	policy.Limits = []core.Limit{core.PerDay(100).WithName("daily")}
	other := core.Must(core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(prefix), patient), policy))
	found = inspect(other, "ann")
	require.Len(t, found.Limits, 1)
	assert.True(t, found.Limits[0].Changed, "another definition wrote it")
	assert.Equal(t, int64(1000), found.Limits[0].Capacity)
	assert.Equal(t, 2, found.Others, "limits that the policy lacks")
}

func TestInspectReportsWhatCantBeRead(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	s := redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout)
	ctx := t.Context()
	client.Set(ctx, prefix+"api:text", "of another program", time.Minute)
	client.HSet(ctx, prefix+"api:hash", "a", "b")
	client.HSet(ctx, prefix+"api:cut", "", strings.Repeat("x", 56)+"\x00\x00\x00\x00")
	client.LPush(ctx, prefix+"api:list", "a")
	for _, key := range []string{"text", "hash", "cut", "list"} {
		_, err := s.Inspect(ctx, "api", key, []core.Limit{core.PerDay(10)})
		assert.ErrorAs(t, err, new(*store.StateError), "%s", key)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := s.Inspect(ended, "api", "x", nil)
	require.ErrorIs(t, err, context.Canceled)
}

// Buckets lists what a store with its prefix has, of one policy or all, and
// nothing else.
func TestBucketsListsThoseOfAPrefix(t *testing.T) {
	client := redistest.Client(t)
	prefix := strings.TrimSuffix(redistest.Prefix(), ":") + "[a-z]*?:"
	var want []redisstore.Bucket
	for _, in := range []string{prefix, prefix + "x:", "x" + prefix} {
		s := redisstore.New(client, redisstore.WithPrefix(in), longTimeout)
		for _, policy := range []string{"api", "a:{p}%i", "ap*", "api2"} {
			l := core.Must(core.NewLimiter(s, core.Policy{Name: policy, Limits: []core.Limit{core.PerDay(10)}}))
			for _, key := range []string{"ann", "a:b", "{x}%7B%:", strings.Repeat("long", 50), core.JoinKey("a:b", "%")} {
				_, err := l.Allow(t.Context(), key)
				require.NoError(t, err)
				if in == prefix {
					want = append(want, redisstore.Bucket{Policy: policy, Key: store.Key(key)})
				}
			}
		}
	}
	client.Set(t.Context(), prefix+"foreign", "x", time.Minute)
	s := redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout)
	list := func(policy string, rate int) (got []redisstore.Bucket) {
		for b, err := range s.Buckets(t.Context(), policy, rate) {
			require.NoError(t, err)
			got = append(got, b)
		}
		slices.SortFunc(got, func(a, b redisstore.Bucket) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return got
	}
	assert.ElementsMatch(t, want, list("", 0))
	assert.ElementsMatch(t, want[:5], list("api", 0), "of one policy, and not of api2")
	assert.ElementsMatch(t, want[10:15], list("ap*", 100_000), "a policy's name is no pattern")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.Buckets(ctx, "", 1) {
		require.ErrorIs(t, err, context.Canceled)
	}
	for range s.Buckets(t.Context(), "", 0) {
		break // the caller may stop
	}
}

// A server that fails hides its own buckets alone, and is named in its turn.
func TestBucketsGoOnAfterAServerThatFails(t *testing.T) {
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	addrs := make(map[string]string)
	for _, s := range servers {
		addrs[s.Addr] = s.Addr
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, HeartbeatFrequency: time.Hour, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = ring.Close() })
	s := redisstore.New(ring, longTimeout)
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}, OnFailure: core.FailClosed}))
	lost, want := servers[1], 0
	for i := range 60 {
		key := fmt.Sprint("user:", i)
		_, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
		one, err := ring.GetShardClientForKey("ratelimit:api:" + key)
		require.NoError(t, err)
		if one.Options().Addr != lost.Addr {
			want++
			require.NoError(t, s.SetException(t.Context(), key, redisstore.Exception{Key: key}))
		}
	}
	require.Less(t, want, 60, "the premise: each has buckets")
	state, err := s.State(t.Context(), "api", "user:0")
	require.NoError(t, err)
	assert.NotEmpty(t, state.Bytes)
	assert.WithinDuration(t, time.Now(), state.Now, time.Minute)
	lost.Kill()
	got, failed := 0, []error(nil)
	for _, err := range s.Buckets(t.Context(), "api", 0) {
		if err != nil {
			failed = append(failed, err)
		} else {
			got++
		}
	}
	assert.Equal(t, want, got)
	require.Len(t, failed, 1)
	assert.ErrorContains(t, failed[0], lost.Addr)
	for _, err := range s.Buckets(t.Context(), "", 0) {
		if err != nil {
			break // the caller may stop
		}
	}
}
