package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// A result goes back to the bucket that it came from: that of its limiter's
// policy, its key, and who decided.
func TestResultGoesBackWhereItCameFrom(t *testing.T) {
	ctx, away := t.Context(), newAskedStore()
	away.down.Store(true)
	for name, store := range map[string]core.Store{"memory": core.NewMemoryStore(), "the fallback": away} {
		limits := []core.Limit{core.PerDay(10), core.PerDay(100).WithName("tokens").WithUnit("tokens")}
		api := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: limits}))
		other := core.Must(core.NewLimiter(store, core.Policy{Name: "other", Limits: limits}))
		tier := core.Must(api.WithLimits(core.PerDay(10).WithName("api-24h")))
		for _, key := range []string{"ann", string(make([]byte, 1000))} {
			limittest.Use(t, api, "bob", 1)
			limittest.Use(t, other, key, 1)
			bob, others := limittest.Left(t, api, "bob"), limittest.Left(t, other, key)
			res := core.Must(api.AllowUnits(ctx, key, core.Units{core.Requests: 4, "tokens": 30}))
			ofTier := core.Must(tier.AllowN(ctx, key, 2))
			require.NoError(t, res.Settle(ctx, core.Units{core.Requests: 3, "tokens": 10}))
			assert.EqualValues(t, 5, limittest.Left(t, api, key), "%s: a result is settled in its bucket", name)
			require.NoError(t, ofTier.Undo(ctx))
			assert.EqualValues(t, 7, limittest.Left(t, api, key), "%s: a tier shares its policy's bucket", name)
			assert.Equal(t, bob, limittest.Left(t, api, "bob"), "%s: another key's bucket stays as it is", name)
			assert.Equal(t, others, limittest.Left(t, other, key), "%s: another policy's bucket stays as it is", name)
		}
	}
}

// A second time would return the tokens twice, and admit more than the policy
// says.
func TestResultIsUndoneOrSettledOnce(t *testing.T) {
	ctx := t.Context()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), "api", core.PerHour(20))
	limittest.Use(t, l, "ann", 10) // so that tokens that come back twice show
	limittest.Use(t, l, "acme", 10)
	two := func(cost int64) []core.Charge {
		return []core.Charge{{Limiter: l, Key: "ann", Cost: cost}, {Limiter: l, Key: "acme", Cost: cost}}
	}
	left := func(want int64, after string) {
		t.Helper()
		assert.Equal(t, []int64{want, want}, []int64{limittest.Left(t, l, "ann"), limittest.Left(t, l, "acme")}, after)
	}
	type result interface {
		Undo(ctx context.Context) error
		Settle(ctx context.Context, units core.Units) error
	}
	type both struct{ result, copied result }
	ends := map[string]func(context.Context, result) error{
		"Undo":   func(ctx context.Context, r result) error { return r.Undo(ctx) },
		"Settle": func(ctx context.Context, r result) error { return r.Settle(ctx, core.Units{core.Requests: 0}) },
	}
	for kind, take := range map[string]func() []both{
		"Allow": func() []both {
			ann, acme := core.Must(l.AllowN(ctx, "ann", 3)), core.Must(l.AllowN(ctx, "acme", 3))
			return []both{{&ann, &ann}, {&acme, &acme}}
		},
		"AllowTogether": func() []both {
			j := core.Must(core.AllowTogether(ctx, two(3)...))
			return []both{{&j, &j}}
		},
		"results of AllowTogether": func() []both {
			j := core.Must(core.AllowTogether(ctx, two(3)...))
			ann, acme := j.Parts[0], j.Parts[1]
			return []both{{&ann, &j.Parts[0]}, {&acme, &j.Parts[1]}}
		},
		"Reserve": func() []both {
			ann, acme := core.Must(l.Reserve(ctx, "ann", 3)), core.Must(l.Reserve(ctx, "acme", 3))
			copies := []core.Result{ann, acme}
			return []both{{&ann, &copies[0]}, {&acme, &copies[1]}}
		},
	} {
		for first, end := range ends {
			for second, again := range ends {
				taken := take()
				for _, r := range taken {
					require.ErrorIs(t, end(gone, r.result), context.Canceled, kind)
					require.ErrorIs(t, r.result.Settle(ctx, core.Units{"tokens": 1}), core.ErrUnit, kind)
					require.ErrorIs(t, r.result.Settle(ctx, core.Units{core.Requests: -1}), core.ErrCost, kind)
				}
				left(7, kind+": what could not be sent, and a mistake, change nothing")
				for _, r := range taken {
					require.NoError(t, end(ctx, r.result), "%s, %s", kind, first)
				}
				left(10, kind+": "+first)
				for _, r := range taken {
					err := again(ctx, r.copied)
					require.ErrorIs(t, err, core.ErrSettled, "%s: %s after %s", kind, second, first)
					require.Equal(t, core.ErrSettled.Error(), err.Error(), "the error says it once")
				}
				left(10, kind+": "+second+" after "+first+" changes nothing")
			}
		}
	}
	denied := core.Must(core.AllowTogether(ctx, two(11)...))
	require.False(t, denied.Allowed)
	for range 2 {
		require.NoError(t, denied.Undo(ctx), "a denied request took nothing")
	}
	left(10, "a denied request")
}

// Goroutines that end one result at the same time, such as a timeout and its
// handler, return its tokens once.
func TestResultIsUndoneOnceByManyGoroutines(t *testing.T) {
	ctx := t.Context()
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(100))
	allow(t, l, 50)
	res := allow(t, l, 5)
	var undone atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if res.Undo(ctx) == nil {
				undone.Add(1)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, undone.Load(), "one Undo succeeds, and the others get ErrSettled")
	wantLeft(t, l, "the tokens came back once", 50)
}

// Giving back is rare. What it needs must cost nothing where it is not used.
func TestResultsCostNoAllocationUntilTheyAreGivenBack(t *testing.T) {
	ctx := context.Background()
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(1_000_000))
	undo := false
	assert.Zero(t, testing.AllocsPerRun(200, func() {
		if res, err := l.Allow(ctx, "ann"); err != nil || undo {
			_ = res.Undo(ctx)
			_ = res.Settle(ctx, nil)
		}
	}), "a caller of Undo and Settle has its Result on the stack")
}
