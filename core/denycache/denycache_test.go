package denycache_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denycache"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

func TestConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return denycache.New(core.NewMemoryStore(core.WithClock(clock)), time.Hour)
	})
}

// side is a limiter with a clock, whose store has a cache with a horizon; of 0:
// none.
type side struct {
	*core.Limiter

	now   time.Time
	store *denycache.Store
}

func newSide(horizon time.Duration, limits ...core.Limit) *side {
	s := &side{now: time.Unix(1_000_000, 0)}
	s.store = denycache.New(core.NewMemoryStore(core.WithClock(func() time.Time { return s.now })), horizon)
	s.Limiter = core.Must(core.NewLimiter(s.store, core.Policy{Name: "api", Limits: limits}))
	return s
}

func (s *side) allow(t *testing.T, n int64) core.Result {
	t.Helper()
	res, err := s.AllowN(t.Context(), "k", n)
	require.NoError(t, err)
	return res
}

func TestADenialIsRepeatedUntilTheTokensAreThere(t *testing.T) {
	for wait, want := range map[time.Duration]core.Source{
		0: core.FromDenyCache, time.Minute - time.Microsecond: core.FromDenyCache, time.Minute: core.FromStore, -1: core.FromStore,
	} {
		s := newSide(time.Hour, core.PerMinute(1))
		require.True(t, s.allow(t, 1).Allowed)
		require.Equal(t, core.FromStore, s.allow(t, 1).Source)
		s.now = s.now.Add(wait)
		res := s.allow(t, 1)
		assert.Equal(t, want, res.Source, "after %v", wait)
		if res.Source == core.FromDenyCache {
			assert.Equal(t, time.Minute-wait, res.RetryAfter, "after %v", wait)
			assert.EqualValues(t, 1, s.store.Repeated())
		}
	}
}

func TestADenialIsRepeatedForTheHorizon(t *testing.T) {
	s := newSide(time.Second, core.PerMinute(1))
	s.allow(t, 1)
	for _, cost := range []int64{1, 2} { // 2 is above the Capacity
		s.allow(t, cost)
		s.now = s.now.Add(time.Second - time.Microsecond)
		assert.Equal(t, core.FromDenyCache, s.allow(t, cost).Source)
		s.now = s.now.Add(time.Microsecond)
		assert.Equal(t, core.FromStore, s.allow(t, cost).Source, "the horizon is over")
	}
}

// A limiter decides with a cache as it does without, whatever else is called.
// Only what is left may be that of before.
func TestDecisionsAreThoseOfTheStore(t *testing.T) {
	repeated := int64(0)
	first := rand.Uint64()
	for seed := first; seed < first+uint64(soak.Budget(200, 20_000)) && !t.Failed(); seed++ {
		random := rand.New(rand.NewPCG(seed, 0))
		limits := []core.Limit{core.PerSecond(3).WithBurst(1 + random.Int64N(5)), core.PerMinute(60), {
			Name: "stepped", Capacity: 4, RefillRate: 4, RefillInterval: time.Second, Mode: core.Stepped,
		}}
		for _, name := range []string{"4", "5"}[:random.IntN(3)] { // of more than 4 limits, lists are stored otherwise
			limits = append(limits, core.PerMinute(30).WithName(name))
		}
		cached, plain := newSide(time.Second, limits...), newSide(0, limits...)
		for range 100 {
			step := time.Duration(random.Int64N(int64(400 * time.Millisecond)))
			cached.now, plain.now = cached.now.Add(step), plain.now.Add(step)
			call, n := random.IntN(24), 1+random.Int64N(3)
			got, want := cached.call(call, n), plain.call(call, n)
			require.Equal(t, want.Allowed, got.Allowed, "seed %d, call %d", seed, call)
			require.Equal(t, want.RetryAfter, got.RetryAfter, "seed %d, call %d", seed, call)
			require.Equal(t, want.ResetAfter, got.ResetAfter, "seed %d, call %d", seed, call)
			if got.Source != core.FromDenyCache {
				require.Equal(t, want.Limits(), got.Limits(), "seed %d, call %d", seed, call)
			}
		}
		repeated += cached.store.Repeated()
	}
	assert.Positive(t, repeated, "premise: denials are repeated")
}

// call makes one of many calls.
func (s *side) call(which int, n int64) (res core.Result) {
	ctx := context.Background()
	switch which {
	case 0:
		res, _ = s.Peek(ctx, "k")
	case 1:
		_ = s.Refund(ctx, "k", n)
	case 2:
		_ = s.Debit(ctx, "k", n)
	case 3:
		_ = s.Reset(ctx, "k")
	case 4:
		if res, _ = s.AllowN(ctx, "k", n); res.Allowed {
			_, _ = s.Allow(ctx, "k")
			_ = res.Undo(ctx)
		}
	case 5:
		res, _ = s.AllowUnits(ctx, "k", core.Units{core.Requests: n})
		_ = res.Settle(ctx, core.Units{core.Requests: 2})
	case 6:
		res, _ = s.AllowAtMost(ctx, "k", n)
	case 7:
		res, _ = core.AllowTogether(ctx, core.Charge{Limiter: s.Limiter, Key: "k", Cost: n}, core.Charge{Limiter: s.Limiter, Key: "other"})
	case 8:
		if r, err := s.Reserve(ctx, "k", n); err == nil && n > 1 {
			_, _ = s.Allow(ctx, "k")
			_ = r.Cancel(ctx)
		}
	case 9:
		more := s.Policy()
		more.Limits[0] = core.PerSecond(3).WithBurst(more.Limits[0].Capacity + 1)
		_ = s.SetPolicy(more)
	case 10:
		res, _ = core.Must(s.WithLimits(core.PerMinute(60))).AllowN(ctx, "k", n)
	default:
		res, _ = s.AllowN(ctx, "k", n)
	}
	return res
}

// gated is a store that does not answer its next call before go ahead.
type gated struct {
	*core.MemoryStore

	next chan struct{} // nil: it answers
	held chan struct{}
}

func (s *gated) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.MemoryStore.Do(ctx, r)
	if next := s.next; next != nil {
		s.next = nil
		close(s.held)
		<-next
	}
	return a, err
}

// A denial is not remembered if tokens may have come back since the store has
// decided it.
func TestADenialThatIsLateIsNotRepeated(t *testing.T) {
	below := &gated{MemoryStore: core.NewMemoryStore(), held: make(chan struct{})}
	l := core.Must(core.NewLimiter(denycache.New(below, time.Hour), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}))
	res, err := l.Allow(t.Context(), "k")
	require.True(t, err == nil && res.Allowed)
	below.next = make(chan struct{})
	goOn, done := below.next, make(chan bool)
	go func() {
		res, err := l.Allow(context.Background(), "k")
		done <- err == nil && res.Allowed
	}()
	<-below.held
	require.NoError(t, l.Refund(t.Context(), "k", 1))
	close(goOn)
	require.False(t, <-done, "premise: it was denied before the refund")
	res, err = l.Allow(t.Context(), "k")
	require.NoError(t, err)
	assert.True(t, res.Allowed, "the token that came back is there")
}
