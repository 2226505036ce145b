package redisstore_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// side is a limiter with a clock, whose store has a cache with a horizon; of 0:
// none.
type side struct {
	*core.Limiter

	now      time.Time
	told     int          // penalties
	repeated func() int64 // how many denials the cache has repeated
}

func newSide(horizon time.Duration, limits ...core.Limit) *side {
	s := &side{now: time.Unix(1_000_000, 0)}
	memory := core.NewMemoryStore(core.WithClock(func() time.Time { return s.now }))
	cache, repeated := redisstore.DenyCacheAround(memory, horizon)
	s.repeated = repeated
	s.Limiter = core.Must(core.NewLimiter(cache, core.Policy{Name: "api", Limits: limits}, core.WithObserver(func(_ context.Context, o core.Observation) {
		if o.Penalized {
			s.told++
		}
	})))
	return s
}

// A limiter decides with a cache as it does without, whatever else is called.
// Only what is left may be that of before.
func TestDenyCacheDecidesAsTheStoreDoes(t *testing.T) {
	repeated := int64(0)
	first := rand.Uint64()
	for seed := first; seed < first+uint64(soak.Budget(200, 8_000)) && !t.Failed(); seed++ {
		random := rand.New(rand.NewPCG(seed, 0))
		limits := []core.Limit{core.PerSecond(3).WithBurst(1 + random.Int64N(5)), core.PerMinute(60), {
			Name: "stepped", Capacity: 4, RefillRate: 4, RefillInterval: time.Second, Mode: core.Stepped,
		}}
		if random.IntN(2) == 0 { // more than 4 limits are stored otherwise
			limits = append(limits, core.PerHour(1).WithBurst(20).WithUnit("tokens"), core.PerHour(60).WithBurst(1000))
		}
		if random.IntN(4) == 0 {
			limits[0] = limits[0].WithPenalty(time.Duration(1+random.IntN(500)) * time.Millisecond)
		}
		cached, plain := newSide(time.Second, limits...), newSide(0, limits...)
		for range 100 {
			step := time.Duration(random.Int64N(int64(400 * time.Millisecond)))
			cached.now, plain.now = cached.now.Add(step), plain.now.Add(step)
			call, n := random.IntN(25), 1+random.Int64N(3)
			got, want := cached.call(call, n), plain.call(call, n)
			require.Equal(t, want.Allowed, got.Allowed, "seed %d, call %d", seed, call)
			require.Equal(t, want.RetryAfter, got.RetryAfter, "seed %d, call %d", seed, call)
			require.Equal(t, want.ResetAfter, got.ResetAfter, "seed %d, call %d", seed, call)
			require.Equal(t, plain.told, cached.told, "seed %d, call %d: a penalty is told once", seed, call)
			if got.Source != core.FromDenyCache || call <= 3 {
				require.Equal(t, want.Limits(), got.Limits(), "seed %d, call %d", seed, call)
			}
		}
		repeated += cached.repeated()
	}
	assert.Positive(t, repeated, "premise: denials are repeated")
}

// call makes one of many calls.
func (s *side) call(which int, n int64) (res core.Result) {
	ctx := context.Background()
	switch which {
	case 0, 1, 2, 3:
		res, _ = s.Peek(ctx, "k")
	case 11:
		_ = s.Refund(ctx, "k", n)
	case 12:
		_ = s.Debit(ctx, "k", 3*n)
	case 13:
		_ = s.Reset(ctx, "k")
	case 4:
		if res, _ = s.AllowN(ctx, "k", n); res.Allowed {
			_, _ = s.Allow(ctx, "k")
			_ = res.Undo(ctx)
		}
	case 5:
		if res, _ = s.AllowUnits(ctx, "k", core.Units{core.Requests: 1, "tokens": 20 * n}); res.Source == core.FromStore && n > 1 {
			_ = res.Settle(ctx, core.Units{core.Requests: 2})
		}
	case 6:
		res, _ = s.AllowAtMost(ctx, "k", n)
	case 7:
		res, _ = core.AllowTogether(ctx, core.Charge{Limiter: s.Limiter, Key: "k", Cost: n}, core.Charge{Limiter: s.Limiter, Key: "other"})
	case 8:
		if r, err := s.Reserve(ctx, "k", n); err == nil && n > 1 {
			_, _ = s.Allow(ctx, "k")
			_ = r.Undo(ctx)
		}
	case 9:
		more := s.Policy()
		more.Limits[0] = core.PerSecond(3).WithBurst(more.Limits[0].Capacity + 1)
		_ = s.SetPolicy(more)
	case 10:
		res, _ = core.Must(s.WithLimits(core.PerMinute(60))).AllowN(ctx, "k", n)
	case 24:
		res, _ = s.AllowAbove(ctx, "k", n, 2) // what a floor denies is no denial for others
	default:
		res, _ = s.AllowN(ctx, "k", n)
	}
	return res
}

// gated is a store that has its next call wait, for a signal at wait, before it
// is executed or before it is answered.
type gated struct {
	*core.MemoryStore

	waits, executes bool
	held, wait      chan struct{}
}

func (s *gated) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	waits, first := s.waits, s.executes
	s.waits = false
	if !waits || first {
		a, err = s.MemoryStore.Do(ctx, r)
	}
	if waits {
		close(s.held)
		<-s.wait
		if !first {
			a, err = s.MemoryStore.Do(ctx, r)
		}
	}
	return a, err
}

// A denial is not repeated if a token may have come back after the store decided
// it, however late the two calls are.
func TestDenialBesideReturnedTokensIsNotRepeated(t *testing.T) {
	for name, rule := range map[string]struct {
		denialLate bool // it was decided before the tokens came back, and is answered after
		give       func(l *core.Limiter) error
	}{
		"a late denial and a refund": {true, func(l *core.Limiter) error { return l.Refund(context.Background(), "k", 1) }},
		"a late denial and a reset":  {true, func(l *core.Limiter) error { return l.Reset(context.Background(), "k") }},
		"a late refund":              {false, func(l *core.Limiter) error { return l.Refund(context.Background(), "k", 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			below := &gated{MemoryStore: core.NewMemoryStore(), executes: rule.denialLate, held: make(chan struct{}), wait: make(chan struct{})}
			cache, _ := redisstore.DenyCacheAround(below, time.Hour)
			l := core.Must(core.NewLimiter(cache, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}))
			allow := func() bool {
				res, err := l.Allow(context.Background(), "k")
				assert.NoError(t, err)
				return res.Allowed
			}
			require.True(t, allow())
			denial := func() { assert.False(t, allow(), "premise: it is decided before the tokens come back") }
			give := func() { assert.NoError(t, rule.give(l)) }
			first, second := denial, give
			if !rule.denialLate {
				first, second = give, denial
			}
			below.waits = true
			done := make(chan struct{})
			go func() { first(); close(done) }()
			<-below.held
			second()
			close(below.wait)
			<-done
			assert.True(t, allow(), "the token that came back is there")
		})
	}
}
