package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// rulesOnSlots skips the rules of storetest that are not about slots and
// estimates.
func rulesOnSlots(t *testing.T) {
	t.Helper()
	if !slices.ContainsFunc([]string{"slot", "estimate", "several_keys"}, func(about string) bool { return strings.Contains(t.Name(), about) }) {
		t.Skip("not about slots")
	}
}

// Leases and the deny cache change nothing for slots.
func TestSlotsConformBesideLeases(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	storetest.Run(t, func(t *testing.T, clock func() time.Time) core.Store {
		rulesOnSlots(t)
		return storeOn(client, core.WithClock(clock), redisstore.WithLease(64))
	})
}

// A denial for want of a slot is not repeated: a slot that another process
// releases is there for the next request.
func TestSlotOfAnotherProcessIsThereAtOnce(t *testing.T) {
	prefix := redisstore.WithPrefix(redistest.Prefix())
	var both []*core.Limiter
	for range 2 {
		s := redisstore.New(redistest.Client(t), prefix, longTimeout, redisstore.WithLease(64))
		both = append(both, limittest.Limiter(t, s, "api", core.InFlight(1).WithMaxHold(time.Hour), core.PerDay(1000).WithName("daily")))
	}
	for i := range 50 {
		holder, other := both[i%2], both[1-i%2]
		held, err := holder.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, held.Allowed, "round %d: a slot that was released is there at once", i)
		for range 3 {
			denied, err := other.Allow(t.Context(), "k")
			require.NoError(t, err)
			assert.False(t, denied.Allowed, "the slot is out")
			assert.Equal(t, core.FromStore, denied.Source, "a denial for want of a slot comes from the store, and not from a cache")
		}
		require.NoError(t, held.Release(t.Context()))
	}
}

const tokens = "tokens"

// Redis may evict either of a bucket's two keys. What was held before counts no
// more then, and its end gives nothing back to what is held since.
func TestHoldsFromBeforeAnEvictionGiveNothingBack(t *testing.T) {
	for name, test := range map[string]struct {
		limit core.Limit
		take  core.Units
		back  func(*core.Result) error
		left  int64 // after two were taken since, and the first one has ended
	}{
		"slots that are released": {
			core.InFlight(9).WithMaxHold(time.Hour), core.Units{core.Requests: 1},
			func(r *core.Result) error { return r.Release(context.Background()) }, 7,
		},
		"estimates that are settled": { // what they have used is charged
			core.PerDay(9).WithUnit(tokens).WithMaxHold(time.Hour), core.Units{tokens: 2},
			func(r *core.Result) error { return r.Settle(context.Background(), core.Units{tokens: 1}) }, 4,
		},
	} {
		for _, evicted := range []string{"the state", "the state, which a version without holds writes first", "the holds"} {
			t.Run(name+"/"+evicted, func(t *testing.T) {
				client, prefix, ctx := redistest.Client(t), redistest.Prefix(), t.Context()
				l := core.Must(core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout),
					core.Policy{Name: "api", Limits: []core.Limit{test.limit}, OnFailure: core.FailClosed}))
				take := func() *core.Result {
					res, err := l.AllowUnits(ctx, "k", test.take)
					require.NoError(t, err)
					require.True(t, res.Allowed)
					return &res
				}
				old := take()
				key := redisstore.RedisKey(prefix, "api", "k")
				if evicted == "the holds" {
					key = redisstore.HoldsKey(prefix, key)
				}
				require.EqualValues(t, 1, client.Del(ctx, key).Val(), "premise: the key was there")
				if strings.Contains(evicted, "version") {
					other, err := l.WithLimits(core.PerDay(9).WithName("other"))
					require.NoError(t, err)
					_, err = other.Allow(ctx, "k")
					require.NoError(t, err)
				}
				take()
				take()
				require.NoError(t, test.back(old))
				res, err := l.Peek(ctx, "k")
				require.NoError(t, err)
				assert.Equal(t, test.left, res.Remaining, "what is left of 9")
			})
		}
	}
}

// What middleware releases when a response is over is sent before the client is
// closed: a deploy takes no slots along.
func TestCloseWaitsForReleases(t *testing.T) {
	const requests = 100
	prefix := redistest.Prefix()
	slots := core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(requests)}}
	s, err := redisstore.Open("redis://"+redistest.Addr(t), redisstore.WithPrefix(prefix), longTimeout)
	require.NoError(t, err)
	l := core.Must(core.NewLimiter(s, slots))
	var releases []func()
	for range requests {
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, res.Allowed)
		release, _ := res.Keep()
		releases = append(releases, release)
	}
	for _, release := range releases {
		release()
	}
	require.NoError(t, s.Close())
	other := core.Must(core.NewLimiter(redisstore.New(redistest.Client(t), redisstore.WithPrefix(prefix)), slots))
	res, err := other.Peek(t.Context(), "k")
	require.NoError(t, err)
	require.EqualValues(t, requests, res.Remaining)
}

// Callers whose contexts end while their call is under way take no slot along.
func TestCallersThatLeaveRedisTakeNoSlotAlong(t *testing.T) {
	l := limittest.Limiter(t, storeOn(redistest.Client(t)), "api", core.InFlight(20).WithMaxHold(time.Hour), core.PerDay(100_000).WithName("daily"))
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50)*200*time.Microsecond)
			defer cancel()
			res, err := l.Acquire(ctx, "k")
			switch {
			case err != nil:
				assert.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, core.ErrDeadline), err)
			case i%2 == 0:
				_ = res.Release(t.Context())
			default:
				_ = res.Undo(t.Context())
			}
		})
	}
	all.Wait()
	assert.Eventually(t, func() bool { return limittest.Left(t, l, "k") == 20 }, time.Minute, 10*time.Millisecond)
}
