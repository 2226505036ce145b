package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// busyLease returns a limiter of 1,000 tokens that has leases, and has used
// 200.
func busyLease(t *testing.T) (*leaseBench, *core.Limiter) {
	t.Helper()
	b := newLeaseBench(t, noRefill(1000))
	l := b.process(redisstore.WithLease(64))
	b.take(l, 200)
	return b, l
}

func TestLeasesBesideOtherCalls(t *testing.T) {
	ctx := context.Background()
	t.Run("Remaining counts down one by one", func(t *testing.T) {
		_, l := busyLease(t)
		for want := int64(799); want > 700; want-- {
			res, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			require.Equal(t, want, res.Remaining, "%v", res.Source)
		}
	})
	t.Run("a cost above the lease", func(t *testing.T) {
		b, l := busyLease(t)
		b.take(l, 10)
		assert.Less(t, b.remaining(), int64(790), "some are on lease")
		res, err := l.AllowN(ctx, "k", 790)
		require.NoError(t, err)
		assert.True(t, res.Allowed, "a process can use the tokens it has on lease")
		assert.Equal(t, core.FromStore, res.Source)
		assert.Zero(t, b.remaining())
	})
	t.Run("together with another limiter", func(t *testing.T) {
		b, l := busyLease(t)
		other := b.process(redisstore.WithLease(64))
		b.take(l, 10)
		assert.Less(t, b.remaining(), int64(790), "some are on lease")
		j, err := core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "k", Cost: 790}, core.Charge{Limiter: l, Key: "other"})
		require.NoError(t, err)
		assert.True(t, j.Allowed, "a process can use the tokens it has on lease")
		assert.Zero(t, b.remaining())
		require.NoError(t, other.Refund(ctx, "k", 300))
		b.take(l, 100)
		b.take(other, 100) // has a lease of its own, which nobody else can use
		j, err = core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "k", Cost: 100}, core.Charge{Limiter: l, Key: "other"})
		require.NoError(t, err)
		assert.False(t, j.Allowed)
		b.giveBack()
		assert.Equal(t, int64(100), b.remaining(), "a denial takes nothing, on lease neither")
	})
	t.Run("Reserve", func(t *testing.T) {
		b, l := busyLease(t)
		r, err := l.Reserve(ctx, "k", 1)
		require.NoError(t, err)
		assert.True(t, r.OK())
		assert.Zero(t, r.Delay())
		r, err = l.Reserve(ctx, "k", 799)
		require.NoError(t, err)
		assert.True(t, r.OK())
		assert.Zero(t, r.Delay(), "a lease is given back before tokens are promised ahead")
		assert.Zero(t, b.remaining())
	})
}

func TestLeasesAfterTokensComeBack(t *testing.T) {
	ctx := context.Background()
	t.Run("Undo and Refund", func(t *testing.T) {
		b, l := busyLease(t)
		res, err := l.Allow(ctx, "k")
		require.NoError(t, err)
		require.NoError(t, res.Undo(ctx))
		require.NoError(t, l.Refund(ctx, "k", 100))
		b.giveBack()
		assert.Equal(t, int64(900), b.remaining())
	})
	t.Run("Undo of all that was taken", func(t *testing.T) {
		b := newLeaseBench(t, noRefill(1000))
		l := b.process(redisstore.WithLease(100))
		var taken []core.Result
		for range 300 {
			res, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			taken = append(taken, res)
		}
		for _, res := range taken {
			require.NoError(t, res.Undo(ctx))
		}
		res, err := l.Peek(ctx, "k")
		require.NoError(t, err)
		assert.Equal(t, int64(1000), res.Remaining)
		b.giveBack()
		assert.Equal(t, int64(1000), b.remaining())
	})
	t.Run("Reset", func(t *testing.T) {
		b, l := busyLease(t)
		require.NoError(t, l.Reset(ctx, "k"))
		assert.Equal(t, int64(1000), b.remaining())
		res, err := l.AllowN(ctx, "k", 1000)
		require.NoError(t, err)
		assert.True(t, res.Allowed)
		res, err = l.Allow(ctx, "k")
		require.NoError(t, err)
		assert.False(t, res.Allowed, "after a reset old leases hold no tokens")
	})
}

func TestLeasesBesideCallsThatFail(t *testing.T) {
	ctx := context.Background()
	t.Run("a Refund that fails gives nothing back", func(t *testing.T) {
		b, l := busyLease(t)
		off := &switched{failing: failing{command: "evalsha"}}
		b.client.AddHook(off)
		off.on.Store(true)
		require.ErrorIs(t, l.Refund(ctx, "k", 150), core.ErrUnavailable)
		off.on.Store(false)
		require.NoError(t, l.Refund(ctx, "k", 150))
		res, err := l.Peek(ctx, "k")
		require.NoError(t, err)
		assert.LessOrEqual(t, res.Remaining, int64(950))
	})
	t.Run("a Reset that fails", func(t *testing.T) {
		b := newLeaseBench(t, noRefill(1000))
		b.client.AddHook(failing{command: "del"})
		l := b.process(redisstore.WithLease(100))
		b.take(l, 200)
		require.ErrorIs(t, l.Reset(ctx, "k"), core.ErrUnavailable)
		assert.Eventually(t, func() bool {
			res, err := b.plain.Peek(ctx, "k")
			return err == nil && res.Remaining == 800
		}, 20*time.Second, time.Millisecond, "a failed Reset still gives the lease back")
	})
}

func TestCloseGivesLeasesBack(t *testing.T) {
	b, l := busyLease(t)
	b.take(l, 10)
	require.Less(t, b.remaining(), int64(790), "premise: some are on lease")
	require.NoError(t, b.stores[1].Close())
	assert.Equal(t, int64(790), b.remaining())
}

func TestLeasesOverTime(t *testing.T) {
	ctx := context.Background()
	t.Run("a new day", func(t *testing.T) {
		b := newLeaseBench(t, core.PerDay(1000).WithMode(core.Aligned))
		midnight := b.clock.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		b.clock.Move(midnight.Add(-10 * time.Millisecond).Sub(b.clock.Now()))
		leased := 0
		for range 5 {
			leased += b.take(b.process(redisstore.WithLease(100)), 60)
		}
		b.clock.Move(20 * time.Millisecond)
		assert.LessOrEqual(t, b.remaining(), int64(1000), "tokens on lease add nothing to the new day")
		b.giveBack()
		assert.LessOrEqual(t, b.remaining(), int64(1000), "returned tokens add nothing to the new day")
		assert.GreaterOrEqual(t, b.remaining(), int64(1000-leased), "only tokens used on open leases may count for both days")
	})
	t.Run("the end of its time", func(t *testing.T) {
		b, l := busyLease(t)
		b.clock.Move(2*time.Second + time.Millisecond)
		res, err := l.Allow(ctx, "k")
		require.NoError(t, err)
		assert.Equal(t, core.FromStore, res.Source, "a lease that is over is not used")
	})
	t.Run("its end, of one that is never settled", func(t *testing.T) {
		limit := core.PerSecond(100)
		b := newLeaseBench(t, limit)
		l := b.process(redisstore.WithLease(100))
		b.take(l, 30)
		b.clock.Move(2*time.Second - 2*time.Millisecond)
		used := int64(0)
		for {
			res, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			used++
			if res.Source != core.FromLease {
				break
			}
		}
		require.Greater(t, used, int64(1), "premise: a lease is used at the last moment")
		b.clock.Move(4 * time.Millisecond)
		assert.LessOrEqual(t, used+b.remaining(), limit.MaxIn(4*time.Millisecond))
	})
}

func TestLeasesUnderSeveralLimits(t *testing.T) {
	ctx := context.Background()
	t.Run("other limits", func(t *testing.T) {
		b, l := busyLease(t)
		b.take(l, 10)
		require.Less(t, b.remaining(), int64(790), "premise: some are on lease")
		tier, err := l.WithLimits(noRefill(2000))
		require.NoError(t, err)
		res, err := tier.AllowN(ctx, "k", 1790)
		require.NoError(t, err)
		assert.True(t, res.Allowed, "a lease under other limits is given back first")
	})
	t.Run("more limits than an answer has room for", func(t *testing.T) {
		var limits []core.Limit
		for i := range 6 {
			limits = append(limits, noRefill(1000+int64(i)).WithName(string(rune('a'+i))))
		}
		b := newLeaseBench(t, limits...)
		l := b.process(redisstore.WithLease(64))
		for n := range int64(50) {
			res, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			for i, limit := range res.Limits() {
				require.Equal(t, 1000+int64(i)-n-1, limit.Remaining, "%s after %d, %v", limit.Limit.Name, n+1, res.Source)
			}
		}
		b.client.AddHook(failing{command: "evalsha"})
		for range 3 {
			_, err := l.AllowN(ctx, "k", 500)
			require.ErrorIs(t, err, core.ErrUnavailable)
		}
	})
	t.Run("a decision on it costs no allocation", func(t *testing.T) {
		b := newLeaseBench(t, noRefill(10_000_000))
		l := b.process(redisstore.WithLease(1_000_000))
		b.take(l, 8000)
		leased := 0
		assert.Zero(t, testing.AllocsPerRun(1000, func() { leased += b.take(l, 1) }))
		assert.GreaterOrEqual(t, leased, 1000, "premise: all on leases, but for one that may renew them")
	})
}

func TestLeasesWhileRedisIsAway(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	ctx := context.Background()
	s := redisstore.New(client, redisstore.WithLease(64), core.WithClock(limittest.NewClock().Now), redisstore.WithTimeout(2*time.Second))
	s.KeepLeases()
	l := limittest.Limiter(t, s, "api", noRefill(1000))
	for range 1 + 2 + 3 + 5 + 9 + 17 + 33 + 10 { // leases of 1 to 32 tokens, and a part of one of 64
		_, err := l.Allow(ctx, "k")
		require.NoError(t, err)
	}
	server.Pause()
	defer server.Resume()
	res, err := l.Allow(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, core.FromLease, res.Source, "what is leased can be used while Redis is away")

	// Requests that need a new lease end with their own contexts.
	_, err = l.AllowN(ctx, "k", 90)
	require.ErrorIs(t, err, core.ErrUnavailable)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			left := make(chan error, 1)
			go func() { _, err := l.AllowN(ctx, "k", 90); left <- err }()
			cancel()
			assert.Error(t, <-left)
		})
	}
	wg.Wait()
}

// failing is a hook that fails one command.
type failing struct {
	redistest.Hook

	command string
}

func (f failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == f.command {
			cmd.SetErr(errors.New("refused by the test"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

// switched is a hook that fails commands while it is on.
type switched struct {
	failing

	on atomic.Bool
}

func (s *switched) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	fail := s.failing.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s.on.Load() {
			return fail(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}

func TestNegativeLeaseIsReported(t *testing.T) {
	_, err := core.NewLimiter(redisstore.New(redis.NewClient(&redis.Options{}), redisstore.WithLease(-1)),
		core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}})
	require.Error(t, err)
	assert.ErrorContains(t, err, "WithLease: -1 must not be negative")
}

func BenchmarkLeasedDecision(b *testing.B) {
	s := redisstore.New(redistest.Client(b), redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithLease(1_000_000))
	l := limittest.Limiter(b, s, "api", core.PerSecond(1_000_000).WithBurst(1_000_000_000))
	ctx := context.Background()
	b.ReportAllocs()
	leased := 0
	for b.Loop() {
		if res, _ := l.Allow(ctx, "k"); res.Source == core.FromLease {
			leased++
		}
	}
	if leased < b.N*9/10 && b.N > 1000 {
		b.Fatal("premise: nearly all are decided on a lease", leased, b.N)
	}
}
