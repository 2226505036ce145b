package redisstore_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
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
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// noRefill returns a limit that gains no token while a test runs.
func noRefill(capacity int64) core.Limit {
	return core.Limit{Capacity: capacity, RefillRate: float64(capacity), RefillInterval: 100 * 24 * time.Hour, Mode: core.Stepped}
}

// leaseBench is a key that several processes share. The clock stands still
// unless a test moves it, so the key is busy and leases do not end by age. Idle
// leases end only by giveBack.
type leaseBench struct {
	*testing.T

	client *redis.Client
	prefix string
	clock  *limittest.Clock
	plain  *core.Limiter // leases nothing
	limits []core.Limit
	stores []*redisstore.Store
}

func newLeaseBench(t *testing.T, limits ...core.Limit) *leaseBench {
	t.Helper()
	b := &leaseBench{T: t, client: redistest.Client(t), prefix: redistest.Prefix(), clock: limittest.NewClock(), limits: limits}
	b.client.AddHook(&redistest.Keeper{})
	b.plain = b.process()
	return b
}

// process returns a limiter with a store of its own, as another process has it.
func (b *leaseBench) process(options ...redisstore.Option) *core.Limiter {
	b.Helper()
	options = append(options, redisstore.WithPrefix(b.prefix), core.WithClock(b.clock.Now), longTimeout)
	s := redisstore.New(b.client, options...)
	s.KeepLeases()
	b.stores = append(b.stores, s)
	return limittest.Limiter(b.T, s, "api", b.limits...)
}

// giveBack makes every process give its leases back.
func (b *leaseBench) giveBack() {
	for _, s := range b.stores {
		s.GiveBack()
	}
}

// take makes n decisions of one token, which must be allowed. It returns how
// many were made on a lease.
func (b *leaseBench) take(l *core.Limiter, n int) (leased int) {
	b.Helper()
	for range n {
		res, err := l.Allow(context.Background(), "k")
		require.NoError(b, err)
		require.True(b, res.Allowed)
		if res.Source == core.FromLease {
			leased++
		}
	}
	return leased
}

// remaining returns how many tokens Redis has.
func (b *leaseBench) remaining() int64 {
	b.Helper()
	res, err := b.plain.Peek(context.Background(), "k")
	require.NoError(b, err)
	return res.Remaining
}

func TestBusyKeyIsDecidedOnLeasedTokens(t *testing.T) {
	b := newLeaseBench(t, noRefill(10_000))
	l := b.process(redisstore.WithLease(100))
	leased := b.take(l, 2000)
	// 1 + 2 + 4 + … + 64 tokens, then 100 each time, with one of each taken in
	// Redis.
	assert.Greater(t, leased, 1900, "decisions on leased tokens of 2,000")
	parked := 8000 - b.remaining()
	assert.LessOrEqual(t, parked, int64(100), "a process must lease at most as many tokens as WithLease says")
	assert.GreaterOrEqual(t, parked, int64(0), "every admitted token must have been taken from Redis")
	res, err := l.Peek(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, int64(8000), res.Remaining, "Remaining must include the process's own lease")
	b.giveBack()
	assert.Equal(t, int64(8000), b.remaining(), "unused tokens must come back")
}

func TestIdleProcessGivesUnusedTokensBack(t *testing.T) {
	b := newLeaseBench(t, noRefill(10_000))
	s := redisstore.New(b.client, redisstore.WithPrefix(b.prefix), core.WithClock(b.clock.Now), longTimeout, redisstore.WithLease(100))
	b.take(limittest.Limiter(t, s, "api", b.limits...), 500)
	require.Positive(t, s.Stats().Leased, "premise: a lease")
	require.Eventually(t, func() bool {
		res, err := b.plain.Peek(t.Context(), "k")
		return err == nil && res.Remaining == 9500
	}, 20*time.Second, time.Millisecond)
}

func TestLeasesAreSmall(t *testing.T) {
	ctx := context.Background()
	t.Run("none for a key that is asked for once in a while", func(t *testing.T) {
		b := newLeaseBench(t, noRefill(10_000))
		l := b.process(redisstore.WithLease(100))
		for range 20 {
			b.clock.Move(51 * time.Millisecond)
			assert.Zero(t, b.take(l, 1))
		}
	})
	t.Run("a tenth of the smallest Capacity", func(t *testing.T) {
		b := newLeaseBench(t, noRefill(10_000), noRefill(50).WithName("small"))
		b.take(b.process(redisstore.WithLease(100)), 20)
		assert.GreaterOrEqual(t, b.remaining(), int64(50-20-5))
	})
	t.Run("half of what is left", func(t *testing.T) {
		b := newLeaseBench(t, noRefill(1000))
		l, other := b.process(redisstore.WithLease(100)), b.process(redisstore.WithLease(100))
		_, err := b.plain.AllowN(ctx, "k", 960)
		require.NoError(t, err)
		b.take(l, 30)
		assert.Positive(t, b.remaining(), "a lease must leave tokens for other processes")
		b.take(other, 1)
	})
	t.Run("none where the Capacity has no tenth", func(t *testing.T) {
		b := newLeaseBench(t, noRefill(9))
		assert.Zero(t, b.take(b.process(redisstore.WithLease(100)), 9))
	})
}

// TestLeasesAdmitEveryTokenOnce floods one key from four processes.
func TestLeasesAdmitEveryTokenOnce(t *testing.T) {
	const capacity = 20_000
	b := newLeaseBench(t, noRefill(capacity), noRefill(3*capacity).WithName("wide"))
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		l := b.process(redisstore.WithLease(500), redisstore.WithDenyCache(0))
		for range 16 {
			wg.Go(func() {
				for denied := 0; denied < 3; {
					res, err := l.Allow(context.Background(), "k")
					if err != nil {
						t.Error(err)
						return
					}
					if !res.Allowed {
						denied++
						continue
					}
					granted.Add(1)
				}
			})
		}
	}
	wg.Wait()
	for _, s := range b.stores[1:] {
		assert.Positive(t, s.Stats().Leased, "premise: each process leased")
	}
	b.giveBack()
	assert.Equal(t, int64(capacity), granted.Load()+b.remaining(), "%d during the flood", granted.Load())
}

// TestNoWindowAdmitsMoreThanMaxInWithLeases sends bursts from several
// processes, on the clock of Redis: with an injected clock, a lease given back
// in between would come with an older instant. The test measures windows by
// this process's monotonic clock, and the server uses the wall clock in whole
// microseconds. So a window is as long as the longer of the two, and a
// microsecond longer.
func TestNoWindowAdmitsMoreThanMaxInWithLeases(t *testing.T) {
	ctx := context.Background()
	client := redistest.Client(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, round))
		limit := core.Limit{Capacity: 10 + random.Int64N(200), RefillInterval: time.Second, RefillRate: float64(1 + random.Int64N(5000)),
			Mode: core.Mode(random.IntN(3))}
		if limit.Mode != core.Continuous {
			limit.RefillInterval /= 20
			limit.RefillRate = min(limit.RefillRate, float64(limit.Capacity))
		}
		prefix, lease := redistest.Prefix(), 1+random.Int64N(20)
		var mu sync.Mutex
		var events []event
		var wg sync.WaitGroup
		began := time.Now()
		ahead := func() time.Duration { return time.Now().Round(0).Sub(began.Round(0)) - time.Since(began) } // the wall clock
		least, most := time.Duration(0), time.Duration(0)
		look := func() { least, most = min(least, ahead()), max(most, ahead()) }
		for range 3 {
			l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout, redisstore.WithLease(lease)), "api", limit)
			for range 3 {
				random := rand.New(rand.NewPCG(random.Uint64(), 0))
				wg.Go(func() {
					for time.Since(began) < 100*time.Millisecond {
						for range random.IntN(100) {
							e := event{before: time.Since(began), cost: 1 + random.Int64N(3)}
							res, err := l.AllowN(ctx, "k", e.cost)
							if err != nil {
								t.Error(err)
								return
							}
							if !res.Allowed {
								break
							}
							e.after = time.Since(began)
							mu.Lock()
							events = append(events, e)
							look()
							mu.Unlock()
						}
						time.Sleep(time.Duration(random.Int64N(30_000_000)))
					}
				})
			}
		}
		wg.Wait()
		if found := overMaxIn(events, limit, most-least+time.Microsecond); found != "" {
			t.Fatalf("round %d: %s, with leases of %d of %+v", round, found, lease, limit)
		}
	}
}

// event is a decision that took tokens at some time between before and after.
type event struct {
	before, after time.Duration
	cost          int64
}

// overMaxIn returns which window of events has more tokens than the limit
// admits, or "". The clocks are so far apart.
func overMaxIn(events []event, limit core.Limit, apart time.Duration) string {
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.before, b.before) })
	for first := range events {
		sum, end := int64(0), time.Duration(0)
		for _, e := range events[first:] {
			sum, end = sum+e.cost, max(end, e.after)
			if window := end - events[first].before + apart; sum > limit.MaxIn(window) {
				return fmt.Sprintf("%d tokens were admitted within %v, more than the %d of MaxIn", sum, window, limit.MaxIn(window))
			}
		}
	}
	return ""
}

// Tests of leases on keys whose limits change, or that are used under several
// lists of limits.

func TestLeaseReturnedAfterSetPolicyRefillsAtTheNewRate(t *testing.T) {
	fast := core.Limit{Name: "a", Capacity: 100_000, RefillRate: 100_000, RefillInterval: time.Second}
	b := newLeaseBench(t, fast)
	l := b.process(redisstore.WithLease(1000))
	limittest.Use(t, l, "k", 90_000)
	require.Positive(t, b.take(l, 10), "premise: a lease under the fast limits")
	slow := core.PerHour(1).WithName("a").WithBurst(100_000)
	require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{slow}}))
	require.EqualValues(t, 100_000-90_000-10, limittest.Left(t, l, "k"), "a change alters nothing")
	b.clock.Move(time.Second)
	b.giveBack()
	require.EqualValues(t, 100_000-90_000-10, limittest.Left(t, l, "k"), "an hour adds one token at the new rate")
}

// A larger request must wait for a lease that is being renewed, which has the
// tokens it needs.
func TestLargeRequestWaitsForALeaseUnderWay(t *testing.T) {
	b := newLeaseBench(t, noRefill(1000))
	gate := &gateHook{}
	b.client.AddHook(gate)
	l := b.process(redisstore.WithLease(100))
	const before = 1 + 2 + 3 + 5 + 9 + 17 + 33 // leases of 1 to 32 tokens; the next is of 64
	b.take(l, before)
	reply := gate.afterServer()
	small, large := make(chan core.Result, 1), make(chan core.Result, 1)
	go func() { res, _ := l.Allow(t.Context(), "k"); small <- res }()
	<-reply.reached
	rest := int64(1000 - before - 1 - 10)
	go func() { res, _ := l.AllowN(t.Context(), "k", rest); large <- res }()
	assert.Never(t, func() bool { return len(large) > 0 }, 50*time.Millisecond, time.Millisecond)
	close(reply.release)
	assert.True(t, (<-small).Allowed)
	assert.True(t, (<-large).Allowed, "the renewed lease has the tokens")
	b.giveBack()
	assert.Equal(t, int64(10), b.remaining())
}

func TestUndoReturnsTokensToTheLimitsTheyCameFrom(t *testing.T) {
	limits := func(limits ...core.Limit) core.Policy { return core.Policy{Name: "api", Limits: limits} }
	x, z := core.PerHour(10).WithName("x"), core.PerHour(10).WithName("z")
	onBoth(t, func(t *testing.T, s core.Store, _ *limittest.Clock) {
		l := core.Must(core.NewLimiter(s, limits(x)))
		taken, err := l.AllowN(t.Context(), "k", 8)
		require.NoError(t, err)
		require.NoError(t, l.SetPolicy(limits(x, z)))
		_, err = l.AllowN(t.Context(), "k", 2)
		require.NoError(t, err)
		require.NoError(t, l.SetPolicy(limits(z)))
		require.Equal(t, 8, admitted(t, l, 20))
		require.NoError(t, taken.Undo(t.Context()))
		assert.Zero(t, admitted(t, l, 20), "Undo must return nothing to a limit that was not charged")

		base := core.Must(core.NewLimiter(s, core.Policy{Name: "tiers", Limits: []core.Limit{x}}))
		one, err := base.WithLimits(core.PerHour(100).WithName("gold"), z)
		require.NoError(t, err)
		other, err := base.WithLimits(core.PerHour(100).WithName("gold"), z)
		require.NoError(t, err)
		require.NoError(t, one.SetPolicy(core.Policy{Name: "tiers", Limits: []core.Limit{core.PerHour(7).WithName("silver"), core.PerHour(8).WithName("iron")}}))
		taken, err = other.AllowN(t.Context(), "k", 5)
		require.NoError(t, err)
		require.NoError(t, taken.Undo(t.Context()))
		res, err := other.Peek(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, int64(10), res.Remaining, "SetPolicy of one limiter must not redirect another's tokens")
	})
}

func TestReturnedLeaseKeepsTheTokensOfAnOverride(t *testing.T) {
	b := newLeaseBench(t, noRefill(100))
	l := b.process(redisstore.WithLease(10))
	key := strings.Repeat("k", 200) // which stores shorten
	for range 10 {
		_, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
	}
	policy := l.Policy()
	policy.Overrides = map[string][]core.Limit{key: {noRefill(1000)}}
	require.NoError(t, l.SetPolicy(policy))
	limittest.Use(t, l, key, 1)
	b.giveBack()
	assert.Equal(t, int64(1000-10-1), limittest.Left(t, l, key), "a lease that was taken under the former limits")
}
