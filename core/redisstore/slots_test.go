package redisstore_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
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
	"github.com/tokenbucket-go/ratelimit/core/storetest"
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
		return redisstore.New(client, core.WithClock(clock), redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithLease(64))
	})
}

// slotProcesses returns limiters of one policy, each with a store of its own on
// the same keys, as those of several processes are.
func slotProcesses(t *testing.T, n int, limits ...core.Limit) []*core.Limiter {
	t.Helper()
	client, prefix := redistest.Client(t), redistest.Prefix()
	var list []*core.Limiter
	for range n {
		s := redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout, redisstore.WithLease(64))
		l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: limits, OnFailure: core.FailClosed})
		require.NoError(t, err)
		list = append(list, l)
	}
	return list
}

// A denial for want of a slot is not repeated: a slot that another process
// releases is there for the next request.
func TestSlotOfAnotherProcessIsThereAtOnce(t *testing.T) {
	both := slotProcesses(t, 2, core.InFlight(1).WithMaxHold(time.Hour), core.PerDay(1000).WithName("daily"))
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

func TestNeverMoreSlotsThanThereAreInSeveralProcesses(t *testing.T) {
	const most = 3
	var out atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	each := make([]atomic.Int64, 3)
	for p, l := range slotProcesses(t, len(each), core.InFlight(most).WithMaxHold(time.Hour)) {
		for range 8 {
			wg.Go(func() {
				for each[p].Load() < 20 { // a process that starves never gets there
					res, err := l.Acquire(ctx, "k")
					if err != nil {
						t.Errorf("process %d has %d slots of 20 after a minute, so it starves: %v", p, each[p].Load(), err)
						return
					}
					if n := out.Add(1); n > most {
						t.Errorf("%d requests are at work at once, and there are %d slots", n, most)
					}
					each[p].Add(1)
					out.Add(-1)
					if err := res.Release(t.Context()); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
}

// Callers whose contexts end while their call is under way take no slot along.
func TestCallersThatLeaveRedisTakeNoSlotAlong(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	l, err := core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout),
		core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(20).WithMaxHold(time.Hour), core.PerDay(100_000).WithName("daily")}, OnFailure: core.FailClosed})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50)*200*time.Microsecond)
			defer cancel()
			res, err := l.Acquire(ctx, "k")
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, core.ErrDeadline) {
				t.Errorf("Acquire: %v", err)
			}
			if err == nil && i%2 == 0 {
				_ = res.Release(t.Context())
			} else if err == nil {
				_ = res.Undo(t.Context())
			}
		})
	}
	wg.Wait()
	assert.Eventually(t, func() bool {
		res, err := l.Peek(t.Context(), "k")
		return err == nil && res.Limits()[0].Remaining == 20
	}, time.Minute, 10*time.Millisecond, "1,000 callers that left take no slot along")
}

const holderVar = "RATELIMIT_TEST_HOLDER"

// TestHolderProcess takes two slots of TestSlotsOfAKilledProcessComeBack and
// then waits to be killed.
func TestHolderProcess(t *testing.T) {
	prefix := os.Getenv(holderVar)
	if prefix == "" {
		t.Skip("run by TestSlotsOfAKilledProcessComeBack")
	}
	client := redistest.Client(t)
	l := killedLimiter(t, client, prefix)
	for range 2 {
		res, err := l.AllowUnits(t.Context(), "k", core.Units{tokens: 300})
		require.NoError(t, err)
		require.True(t, res.Allowed)
		go func() { // as middleware does
			for res.Hold(context.Background()) == nil {
				time.Sleep(killedHold / 3)
			}
		}()
	}
	client.RPush(t.Context(), prefix+"gate", "held")
	time.Sleep(time.Minute)
}

const tokens = "tokens"

// killedHold is the MaxHold of a process that is killed.
const killedHold = 3 * time.Second

func killedLimiter(t *testing.T, client *redis.Client, prefix string) *core.Limiter {
	t.Helper()
	l, err := core.NewLimiter(redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), core.Policy{Name: "api", OnFailure: core.FailClosed, Limits: []core.Limit{
		core.InFlight(3).WithName("at-once").WithMaxHold(killedHold),
		core.PerMonth(1000).WithName("tokens").WithUnit(tokens).WithMaxHold(killedHold),
	}})
	require.NoError(t, err)
	return l
}

func TestSlotsOfAKilledProcessComeBack(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolderProcess$", "-test.v")
	cmd.Env = append(os.Environ(), holderVar+"="+prefix, "REDIS_ADDR="+redistest.Addr(t))
	require.NoError(t, cmd.Start())
	require.NoError(t, client.BLPop(t.Context(), time.Minute, prefix+"gate").Err(), "premise: the other process takes slots")
	l := killedLimiter(t, client, prefix)
	own, err := l.Allow(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, own.Allowed, "one of three slots is free")
	for end := time.Now().Add(killedHold + time.Second); time.Now().Before(end); time.Sleep(killedHold / 6) {
		require.NoError(t, own.Hold(t.Context()))
		denied, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.False(t, denied.Allowed, "a process that holds its slots keeps them beyond MaxHold")
	}
	require.NoError(t, cmd.Process.Kill()) // SIGKILL: it can't release
	_ = cmd.Wait()
	killed := time.Now()
	for {
		require.NoError(t, own.Hold(t.Context()))
		peeked, err := l.Peek(t.Context(), "k")
		require.NoError(t, err)
		if limits := peeked.Limits(); limits[0].Remaining == 2 && limits[1].Remaining == 1000 {
			break
		}
		require.Less(t, time.Since(killed), time.Minute, "slots and estimates of a process that was killed come back: %v", peeked.Limits())
		time.Sleep(20 * time.Millisecond)
	}
	for i := range 2 {
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, res.Allowed, "slot %d of the killed process", i)
	}
	denied, err := l.Allow(t.Context(), "k")
	require.NoError(t, err)
	require.False(t, denied.Allowed, "and no more than it had")
}

// A request that takes no slot of a limit is not denied because more are out
// than a lower capacity has.
func TestRequestWithoutSlotsIsNotDeniedByALowerCapacity(t *testing.T) {
	s := core.NewMemoryStore()
	l := func(n int) *core.Limiter {
		l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(n).WithName("gpus").WithUnit("gpus"), core.PerDay(100).WithName("daily")}})
		require.NoError(t, err)
		return l
	}
	_, err := l(4).AllowUnits(t.Context(), "k", core.Units{"gpus": 3})
	require.NoError(t, err)
	res, err := l(1).Allow(t.Context(), "k")
	require.NoError(t, err)
	assert.True(t, res.Allowed, "3 gpus are out of 1, and the request takes none")
}

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
		for _, evicted := range []string{"the state", "the holds"} {
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
