package redisstore_test

import (
	"context"
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Tests of cases in which two features met on one key, and the store once
// admitted a token too many or lost one.

// takeAll takes n tokens at a time until one request is denied, and returns how
// many it got.
func takeAll(t *testing.T, l *core.Limiter, n int64) (taken int64) {
	t.Helper()
	for {
		res, err := l.AllowN(t.Context(), "k", n)
		require.NoError(t, err)
		if !res.Allowed {
			return taken
		}
		taken += n
	}
}

func reserve(t *testing.T, l *core.Limiter, n int64) *core.Reservation {
	t.Helper()
	r, err := l.Reserve(t.Context(), "k", n)
	require.NoError(t, err)
	require.True(t, r.OK())
	return r
}

func peek(t *testing.T, l *core.Limiter) core.Result {
	t.Helper()
	res, err := l.Peek(t.Context(), "k")
	require.NoError(t, err)
	return res
}

func TestTimeRefillsOnceWhenTheModeChanges(t *testing.T) {
	limit := core.PerHour(100).WithName("x")
	onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
		clock.Move(50*time.Minute - 20*time.Minute - 30*time.Second) // ten minutes to the hour
		dripping, aligned := limittest.Limiter(t, s, "api", limit), limittest.Limiter(t, s, "api", limit.WithMode(core.Aligned))
		taken := int64(0)
		for range 20 {
			for _, l := range []*core.Limiter{aligned, dripping} {
				clock.Move(500 * time.Microsecond)
				left := peek(t, l).Remaining
				if l == aligned {
					left--
				}
				if res, err := l.AllowN(t.Context(), "k", max(0, left)); err != nil || res.Allowed {
					require.NoError(t, err)
					taken += max(0, left)
				}
			}
		}
		assert.LessOrEqual(t, taken, limit.MaxIn(20*time.Millisecond))
	})
}

func TestReturnedTokensLeaveLaterReservationsTheirs(t *testing.T) {
	limit := core.PerSecond(1000)
	for name, giveBack := range map[string]func(t *testing.T, l *core.Limiter, r *core.Reservation) error{
		"Cancel": func(t *testing.T, _ *core.Limiter, r *core.Reservation) error { return r.Cancel(t.Context()) },
		"Undo": func(t *testing.T, _ *core.Limiter, r *core.Reservation) error {
			res := r.Result()
			return res.Undo(t.Context())
		},
		"Refund": func(t *testing.T, l *core.Limiter, _ *core.Reservation) error {
			return l.Refund(t.Context(), "k", 1000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
				l := limittest.Limiter(t, s, "api", limit)
				first, second := reserve(t, l, 1000), reserve(t, l, 1000)
				require.Equal(t, time.Second, second.Delay())
				clock.Move(900 * time.Millisecond)
				require.NoError(t, giveBack(t, l, first))
				taken := takeAll(t, l, 10)
				clock.Move(100 * time.Millisecond)
				taken += takeAll(t, l, 10)
				assert.LessOrEqual(t, taken+1000, limit.MaxIn(100*time.Millisecond), "the second reservation, due now, counts too")
			})
		})
	}
}

func TestLimitKeepsItsTokensBesideOtherLimits(t *testing.T) {
	day := func(name string) core.Limit { return core.PerDay(100).WithName(name) }
	onBoth(t, func(t *testing.T, s core.Store, _ *limittest.Clock) {
		a := limittest.Limiter(t, s, "api", day("a"))
		limittest.Use(t, a, "k", 99)
		limittest.Use(t, limittest.Limiter(t, s, "api", day("c")), "k", 1)
		limittest.Use(t, limittest.Limiter(t, s, "api", day("d"), day("e")), "k", 1)
		assert.Equal(t, int64(1), peek(t, a).Remaining)
	})
}

func TestReservationsCanceledInAnyOrderMakeRoom(t *testing.T) {
	t.Run("waiters", func(t *testing.T) {
		onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
			const every = 6 * time.Minute // far longer than the test waits in real time
			l := limittest.Limiter(t, s, "api", core.PerHour(10))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			const waiters = 1000
			left := make(chan error, waiters)
			for range waiters {
				go func() { left <- l.WaitN(ctx, "k", 1) }()
			}
			require.Eventually(t, func() bool { return peek(t, l).ResetAfter == waiters*every }, time.Minute, 10*time.Millisecond, "premise: all have asked")
			clock.Move(5 * every)
			cancel()
			for range waiters {
				<-left
			}
			require.Eventually(t, func() bool { return peek(t, l).ResetAfter <= 10*every }, time.Minute, 10*time.Millisecond)
			assert.LessOrEqual(t, reserve(t, l, 1).Delay(), every)
		})
	})
	t.Run("reservations, the oldest first", func(t *testing.T) {
		onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
			l := limittest.Limiter(t, s, "api", core.PerDay(1000))
			var queue []*core.Reservation
			for range 10 {
				queue = append(queue, reserve(t, l, 300))
			}
			clock.Move(time.Millisecond)
			for _, r := range queue {
				require.NoError(t, r.Cancel(t.Context()))
			}
			// Three were due at once: their 900 tokens are used.
			assert.Equal(t, int64(100), peek(t, l).Remaining)
			assert.LessOrEqual(t, peek(t, l).ResetAfter, 900*24*time.Hour/1000)
		})
	})
}

func TestPanicInAHookDuringResetIsAFailure(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(panicking{command: "del"})
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout), "api", core.PerDay(5))
	assert.ErrorIs(t, l.Reset(t.Context(), "k"), core.ErrUnavailable)
}

// panicking is a hook that panics on a command.
type panicking struct {
	redistest.Hook

	command string
}

func (h panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == h.command {
			panic("a hook of the application")
		}
		return next(ctx, cmd)
	}
}

func TestWaitReturnsWithItsContextWhileTheStoreIsStuck(t *testing.T) {
	stuck := &stuckStore{MemoryStore: core.NewMemoryStore(), release: make(chan struct{})}
	l := limittest.Limiter(t, stuck, "api", core.PerHour(1))
	limittest.Use(t, l, "k", 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Wait(ctx, "k") }()
	require.Eventually(t, func() bool { return peek(t, l).ResetAfter > time.Hour }, 20*time.Second, time.Millisecond, "premise: Wait has reserved its token")
	stuck.stick.Store(true)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	stuck.stick.Store(false)
	close(stuck.release)
	require.Eventually(t, func() bool { return peek(t, l).ResetAfter <= time.Hour }, 20*time.Second, time.Millisecond, "the reservation of a canceled Wait must be canceled later")
}

// Limits of different names must keep their own tokens when they are reordered.
func TestLimitsWithSimilarNamesKeepTheirTokens(t *testing.T) {
	onBoth(t, func(t *testing.T, s core.Store, _ *limittest.Clock) {
		a, b := core.PerDay(100).WithName("global-default"), core.PerDay(10).WithName("free")
		limittest.Use(t, limittest.Limiter(t, s, "api", a, b), "k", 10)
		limits := peek(t, limittest.Limiter(t, s, "api", b, a)).Limits()
		assert.Equal(t, []int64{0, 90}, []int64{limits[0].Remaining, limits[1].Remaining})
	})
}

func TestLimitNamesOfTheSameHashAreRefused(t *testing.T) {
	hashes := make(map[uint32]string)
	for n := 0; ; n++ {
		name := "limit-" + strconv.Itoa(n)
		h := fnv.New32a()
		h.Write([]byte(name))
		other, found := hashes[h.Sum32()]
		hashes[h.Sum32()] = name
		if !found {
			continue
		}
		_, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1).WithName(other), core.PerDay(2).WithName(name)}})
		require.ErrorContains(t, err, `Policy.Limits[1].Name: "`+name+`" has the same hash as "`+other+`"`)
		return
	}
}

func TestBucketThatWasFullHasTheNewCapacity(t *testing.T) {
	low, high := core.PerSecond(10).WithName("x"), core.PerSecond(10).WithName("x").WithBurst(1000)
	onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
		limittest.Use(t, limittest.Limiter(t, s, "api", low), "k", 10)
		clock.Move(900 * time.Millisecond)
		assert.Equal(t, int64(999), peek(t, limittest.Limiter(t, s, "api", high)).Remaining, "what is used is used under any Capacity")
		clock.Move(100 * time.Millisecond)
		assert.Equal(t, int64(1000), peek(t, limittest.Limiter(t, s, "api", high)).Remaining, "a bucket that was full is full under any Capacity")
	})
}

func TestTimeSinceTheLastChangeRefillsAtTheCurrentRate(t *testing.T) {
	set := func(t *testing.T, l *core.Limiter, limit core.Limit) {
		t.Helper()
		require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{limit}, OnFailure: core.FailClosed}))
	}
	onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
		slow, fast := core.PerHour(1).WithBurst(1000), core.PerMinute(60).WithBurst(1000)
		l := limittest.Limiter(t, s, "api", slow)
		limittest.Use(t, l, "k", 1000)
		clock.Move(10 * time.Minute)
		set(t, l, fast)
		assert.LessOrEqual(t, 1000+peek(t, l).Remaining, fast.MaxIn(10*time.Minute), "a raised limit admits at most its own MaxIn")
	})
	onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
		l := limittest.Limiter(t, s, "api", core.PerMinute(60).WithBurst(10))
		limittest.Use(t, l, "k", 10)
		clock.Move(10 * time.Minute)
		set(t, l, core.PerHour(1).WithBurst(10))
		assert.Equal(t, int64(10), peek(t, l).Remaining, "a lowered limit leaves idle keys a full bucket")
	})
}

func TestReservationsStayInOrderWhenTheRateChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, s core.Store, _ *limittest.Clock) {
		l := limittest.Limiter(t, s, "api", core.PerMinute(1))
		reserve(t, l, 1)
		first := reserve(t, l, 1)
		require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(100).WithBurst(1)}}))
		assert.GreaterOrEqual(t, reserve(t, l, 1).Delay(), first.Delay())
	})
}

func TestCancelAfterTheDueTimeDoesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
		l := limittest.Limiter(t, s, "api", core.PerMinute(10))
		for n := int64(1); n <= 10; n++ {
			r := reserve(t, l, 1)
			require.Zero(t, r.Delay())
			clock.Move(time.Microsecond)
			require.NoError(t, r.Cancel(t.Context()))
			require.Equal(t, 10-n, peek(t, l).Remaining)
		}
		later := reserve(t, l, 1)
		clock.Move(later.Delay() + time.Microsecond)
		require.NoError(t, later.Cancel(t.Context()))
		assert.Zero(t, peek(t, l).Remaining)
	})
}

func TestReservationOlderThanAResetGivesNothingBack(t *testing.T) {
	onBoth(t, func(t *testing.T, s core.Store, _ *limittest.Clock) {
		l := limittest.Limiter(t, s, "api", core.PerSecond(10))
		reserve(t, l, 10)
		later := reserve(t, l, 10)
		require.NoError(t, l.Reset(t.Context(), "k"))
		require.Equal(t, int64(10), takeAll(t, l, 1))
		other := reserve(t, l, 10)
		require.NoError(t, later.Cancel(t.Context()))
		assert.Zero(t, takeAll(t, l, 1))
		require.NoError(t, other.Cancel(t.Context()))
		assert.Equal(t, time.Second, reserve(t, l, 10).Delay(), "its own tokens come back")
	})
}

// stuckStore is a MemoryStore that answers no request while it is stuck, and
// executes all of them later.
type stuckStore struct {
	*core.MemoryStore

	stick   atomic.Bool
	release chan struct{}
}

func (s *stuckStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if !s.stick.Load() {
		return s.MemoryStore.Do(ctx, r)
	}
	go func() {
		<-s.release
		_, _ = s.MemoryStore.Do(context.Background(), r)
	}()
	<-ctx.Done()
	return store.Answer{}, ctx.Err()
}

func TestAlignedLimitsOfTheSamePaceAreToldApart(t *testing.T) {
	limit := core.Limit{Name: "x", Capacity: 20, RefillRate: 10, RefillInterval: time.Minute, Mode: core.Aligned}
	sooner := limit
	sooner.RefillRate, sooner.RefillInterval = 20, 2*time.Minute
	onBoth(t, func(t *testing.T, s core.Store, clock *limittest.Clock) {
		clock.Move(time.Minute) // 10:21:30
		limittest.Use(t, limittest.Limiter(t, s, "api", sooner), "k", 20)
		l := limittest.Limiter(t, s, "api", limit)
		res, err := l.AllowN(t.Context(), "k", 20)
		require.NoError(t, err)
		require.False(t, res.Allowed)
		assert.Equal(t, 90*time.Second, res.RetryAfter, "10 come at 10:22, and 10 at 10:23")
		clock.Move(res.RetryAfter)
		res, err = l.AllowN(t.Context(), "k", 20)
		require.NoError(t, err)
		assert.True(t, res.Allowed, "a client that waits RetryAfter is admitted")
	})
}
