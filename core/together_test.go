package core_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// jointLimits are 7 slots, 10 requests and 900 tokens, whose estimates come
// back.
func jointLimits() []core.Limit {
	return []core.Limit{core.InFlight(7).WithName("slots").WithMaxHold(time.Minute), core.PerDay(10).WithName("daily"),
		core.PerDay(900).WithName("tokens").WithUnit("tokens").WithMaxHold(time.Minute)}
}

// twoCharges are 5 slots and requests, and 400 tokens, of the key k.
func twoCharges(l *core.Limiter) []core.Charge {
	return []core.Charge{
		{Limiter: l, Key: "k", Units: core.Units{core.Requests: 2, "tokens": 100}},
		{Limiter: l, Key: "k", Units: core.Units{core.Requests: 3, "tokens": 300}},
	}
}

func mustTogether(t *testing.T, charges ...core.Charge) core.Result {
	t.Helper()
	j := core.Must(core.AllowTogether(context.Background(), charges...))
	require.True(t, j.Allowed, "premise")
	return j
}

func TestChargesOfOneKeyEndAsOne(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		ctx := t.Context()
		l := core.Must(core.NewLimiter(newStore(core.WithClock(limittest.NewClock().Now)), core.Policy{Name: "api", Limits: jointLimits(), OnFailure: core.FailClosed}))
		j := mustTogether(t, twoCharges(l)...)
		wantLeft(t, l, "the sum is taken", 2, 5, 500)
		for i, sum := range []int64{5, 5, 400} {
			assert.Equal(t, sum, j.Parts[0].Limits()[i].Cost, "charges of one key are one charge of the sum")
			assert.Equal(t, sum, j.Parts[1].Limits()[i].Cost)
		}
		require.NoError(t, j.Parts[0].Hold(ctx))
		require.NoError(t, j.Parts[0].Release(ctx))
		require.NoError(t, j.Parts[1].Release(ctx), "a part may be released when the other one was")
		wantLeft(t, l, "a part releases all slots", 7, 5, 500)
		require.NoError(t, j.Parts[1].Settle(ctx, core.Units{"tokens": 250}))
		wantLeft(t, l, "a part settles the whole estimate", 7, 5, 650)
		require.ErrorIs(t, j.Parts[0].Undo(ctx), core.ErrSettled)
		require.ErrorIs(t, j.Hold(ctx), core.ErrSettled)
		wantLeft(t, l, "and only once", 7, 5, 650)
		j = mustTogether(t, twoCharges(l)...)
		assert.Len(t, j.Limits(), 3, "the limits of one decision are listed once")
		require.NoError(t, j.Undo(ctx))
		wantLeft(t, l, "Undo gives back the sum", 7, 5, 650)
	})
}

// Limiters of one policy, such as a tier's, have one bucket. Policies in shadow
// mode take last.
func TestLimitersOfOneBucketAndOfOthersTakeAllOrNothing(t *testing.T) {
	stores := func(t *testing.T, test func(t *testing.T, s core.Store)) {
		bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
			test(t, newStore(core.WithClock(limittest.NewClock().Now)))
		})
		t.Run("a store that decides one at a time", func(t *testing.T) {
			test(t, newAskedStore(core.WithClock(limittest.NewClock().Now)))
		})
	}
	stores(t, func(t *testing.T, s core.Store) {
		ctx := t.Context()
		limiter := func(name string, shadow bool) *core.Limiter {
			return core.Must(core.NewLimiter(s, core.Policy{Name: name, Limits: jointLimits(), Shadow: shadow, OnFailure: core.FailClosed}))
		}
		one, two, trial := limiter("one", false), limiter("two", false), limiter("trial", true)
		tier := core.Must(one.WithLimits(jointLimits()...))
		j := mustTogether(t, append(append(append(twoCharges(one), core.Charge{Limiter: tier, Key: "k"}), twoCharges(two)...), twoCharges(trial)...)...)
		wantLeft(t, one, "two charges and one by another limiter of the policy", 1, 4, 500)
		wantLeft(t, two, "two charges", 2, 5, 500)
		wantLeft(t, trial, "two charges in shadow mode", 2, 5, 500)
		require.NoError(t, j.Parts[2].Release(ctx))
		wantLeft(t, one, "a release by one of two limiters", 2, 4, 500)
		require.NoError(t, j.Parts[4].Undo(ctx))
		wantLeft(t, two, "Undo of one policy", 7, 10, 900)
		require.NoError(t, j.Release(ctx))
		wantLeft(t, one, "a release of all", 7, 4, 500)
		wantLeft(t, trial, "a release of all", 7, 5, 500)

		for name, denies := range map[string][]core.Charge{
			"another policy":                    append(twoCharges(one), core.Charge{Limiter: two, Key: "k", Cost: 8}),
			"another limiter of the policy":     {{Limiter: one, Key: "k", Cost: 4}, {Limiter: tier, Key: "k"}},
			"a policy that is asked first":      append(twoCharges(two), core.Charge{Limiter: one, Key: "k", Cost: 5}),
			"another one than in shadow mode":   append(twoCharges(trial), core.Charge{Limiter: one, Key: "k", Cost: 5}),
			"one limiter of two, of other keys": {{Limiter: one, Key: "k"}, {Limiter: one, Key: "j", Cost: 8}},
		} {
			j := core.Must(core.AllowTogether(ctx, denies...))
			assert.False(t, j.Allowed, name)
			assert.Positive(t, j.RetryAfter, name)
			require.NoError(t, errors.Join(j.Release(ctx), j.Undo(ctx), j.Parts[0].Release(ctx), j.Parts[0].Undo(ctx)))
			wantLeft(t, one, "denied by "+name, 7, 4, 500)
			wantLeft(t, two, "denied by "+name, 7, 10, 900)
			wantLeft(t, trial, "denied by "+name, 7, 5, 500)
		}

		full := mustTogether(t, core.Charge{Limiter: trial, Key: "k", Cost: 4}, core.Charge{Limiter: trial, Key: "k", Cost: 4})
		for i := range full.Parts {
			assert.True(t, full.Parts[i].ShadowDenied, "8 of 7 slots, in shadow mode")
		}
		require.NoError(t, errors.Join(full.Release(ctx), full.Undo(ctx)))
		wantLeft(t, trial, "and nothing is taken or given back", 7, 5, 500)
	})
}

// An error of the store is one of the decision, so the policy's OnFailure
// decides. What the store held is ended there, and what the process holds under
// FailLocal in the process.
func TestTogetherWhileAStoreComesAndGoes(t *testing.T) {
	ctx := t.Context()
	for _, mode := range []core.FailureMode{core.FailClosed, core.FailLocal, core.FailOpen} {
		s := newAskedStore(core.WithClock(limittest.NewClock().Now))
		l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: jointLimits(), OnFailure: mode}))
		for fails := range int64(2) {
			before := s.asked.Load()
			s.before = func(store.Request) { s.down.Store(s.asked.Load()-before == fails+1) }
			j, err := core.AllowTogether(ctx, append(twoCharges(l), core.Charge{Limiter: l, Key: "other"})...)
			s.before = nil
			s.down.Store(false)
			if mode == core.FailClosed {
				require.ErrorIs(t, err, core.ErrUnavailable, "call %d", fails)
			} else {
				require.NoError(t, err)
				require.True(t, j.Allowed, "%v, call %d", mode, fails)
				require.NoError(t, errors.Join(j.Release(ctx), j.Undo(ctx)))
			}
			wantLeft(t, l, "what one store gave does not come back to another", 7, 10, 900)
		}
		if mode != core.FailLocal {
			continue
		}
		inStore := mustTogether(t, twoCharges(l)...)
		s.down.Store(true)
		local := mustTogether(t, twoCharges(l)...)
		assert.Equal(t, core.FromFallback, local.Parts[1].Source, "premise")
		require.ErrorIs(t, inStore.Release(ctx), core.ErrUnavailable)
		s.down.Store(false)
		wantLeft(t, l, "a release that was lost comes back after MaxHold", 2, 5, 500)
		require.NoError(t, local.Undo(ctx))
		wantLeft(t, l, "the process's own are no other's", 2, 5, 500)
		require.NoError(t, inStore.Undo(ctx))
		s.down.Store(true)
		wantLeft(t, l, "and came back in the process", 7, 10, 900)
	}
}

func TestChargesAreSettledWhenTheCallersSliceIsReused(t *testing.T) {
	ctx := t.Context()
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), "api", core.PerHour(10))
	charges := []core.Charge{{Limiter: l, Key: "ann", Cost: 4}, {Limiter: l, Key: "acme", Cost: 4}}
	settled, undone := mustTogether(t, charges...), mustTogether(t, charges...)
	charges[0].Key, charges[1] = "bob", core.Charge{}
	require.NoError(t, settled.Settle(ctx, core.Units{core.Requests: 1}))
	require.NoError(t, undone.Undo(ctx))
	assert.EqualValues(t, 9, limittest.Left(t, l, "ann"))
	assert.EqualValues(t, 9, limittest.Left(t, l, "acme"))
}

func TestTogetherWithALimiterThatNoConstructorReturned(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(10))
	_, err := core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "ann"}, core.Charge{Limiter: &core.Limiter{}, Key: "ann"})
	require.EqualError(t, err, "AllowTogether charges[1].Limiter: <nil> must be a limiter from NewLimiter (RL306)")
	assert.EqualValues(t, 10, limittest.Left(t, l, "ann"))
	_, err = core.AllowTogether(t.Context())
	require.EqualError(t, err, "AllowTogether charges: 0 charges: at least one is required (RL306)")
}

// All charges can have the same Units: each takes those that its limiter counts,
// and a unit that none of them counts is a mistake, which takes nothing.
func TestChargesTakeTheUnitsThatTheirLimitersCount(t *testing.T) {
	ctx, s := t.Context(), core.NewMemoryStore()
	requests := limittest.Limiter(t, s, "requests", core.PerDay(9))
	words := limittest.Limiter(t, s, "words", core.PerDay(50).WithUnit("words"))
	blocked := core.Must(core.NewLimiter(s, core.Policy{Name: "blocked", Limits: []core.Limit{core.PerDay(9)}, Blocked: []string{"k"}}))
	take := func(units core.Units, limiters ...*core.Limiter) (core.Result, error) {
		var charges []core.Charge
		for _, l := range limiters {
			charges = append(charges, core.Charge{Limiter: l, Key: "k", Units: units})
		}
		return core.AllowTogether(ctx, charges...)
	}
	left := func() [2]int64 {
		return [2]int64{core.Must(requests.Peek(ctx, "k")).Remaining, core.Must(words.Peek(ctx, "k")).Remaining}
	}
	for _, test := range []struct {
		name     string
		units    core.Units
		limiters []*core.Limiter
		allowed  bool
		err      error
		left     [2]int64
	}{
		{"each its own", core.Units{"words": 20}, []*core.Limiter{requests, words}, true, nil, [2]int64{8, 30}},
		{"by number", core.Units{core.Requests: 2, "words": 5}, []*core.Limiter{requests, words}, true, nil, [2]int64{6, 25}},
		{"two charges of one key", core.Units{"words": 5}, []*core.Limiter{words, requests, words}, true, nil, [2]int64{5, 15}},
		{"one of them lacks words", core.Units{"words": 16}, []*core.Limiter{requests, words}, false, nil, [2]int64{5, 15}},
		{"nobody counts pages", core.Units{"words": 5, "pages": 1}, []*core.Limiter{requests, words}, false, core.ErrUnit, [2]int64{5, 15}},
		{"nobody counts requests", core.Units{core.Requests: 1}, []*core.Limiter{words}, false, core.ErrUnit, [2]int64{5, 15}},
		{"less than nothing", core.Units{"words": -1}, []*core.Limiter{requests, words}, false, core.ErrCost, [2]int64{5, 15}},
		{"a block of who takes something", core.Units{"words": 1}, []*core.Limiter{blocked, words}, false, nil, [2]int64{5, 15}},
		{"a block of who takes nothing", core.Units{core.Requests: 0, "words": 1}, []*core.Limiter{blocked, words}, true, nil, [2]int64{5, 14}},
	} {
		units := maps.Clone(test.units)
		res, err := take(units, test.limiters...)
		require.ErrorIs(t, err, test.err, test.name)
		assert.Equal(t, test.allowed, res.Allowed, test.name)
		assert.Equal(t, test.left, left(), test.name)
		assert.Equal(t, test.units, units, "%s: the units are the caller's", test.name)
	}
}
