package core_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// Random charges of two buckets, some of them of the same: by one limiter, by
// another one of the same policy, by a tier that has some of the limits. What
// was allowed is taken once, a denial takes nothing, results tell the bucket as
// it is, and whoever waits RetryAfter and asks alone is allowed.
func TestChargesOfOneBucketAreExact(t *testing.T) {
	denials := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		clock := limittest.NewClock()
		store := core.NewMemoryStore(core.WithClock(clock.Now))
		requests := core.Limit{
			Name: "requests", Capacity: 12, RefillRate: float64(rapid.IntRange(1, 9).Draw(t, "rate")), RefillInterval: time.Minute,
			Mode: rapid.SampledFrom([]core.Mode{core.Continuous, core.Stepped, core.Aligned}).Draw(t, "mode"),
		}
		tokens := core.PerHour(40).WithName("tokens").WithUnit("tokens")
		open := func(limits ...core.Limit) *core.Limiter {
			return core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: limits, OnFailure: core.FailClosed},
				core.WithLogger(slog.New(slog.DiscardHandler))))
		}
		all := []core.Limit{requests, core.PerHour(30).WithName("hour"), tokens, core.PerDay(25).WithName("day")}
		one, reference := open(all[:3]...), open(all[:3]...)
		limiters := []*core.Limiter{one, one, reference, core.Must(one.WithLimits(requests, tokens, all[3]))}
		every := open(all...)
		left := func(key string) map[string]int64 {
			res, err := every.Peek(ctx, key)
			require.NoError(t, err)
			has := make(map[string]int64)
			for _, l := range res.Limits() {
				has[l.Limit.Name] = l.Remaining
			}
			return has
		}
		for range 20 {
			clock.Move(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms")) * time.Millisecond)
			var charges []core.Charge
			sums := map[string]map[string]int64{"ann": {}, "bob": {}} // by key and limit
			never := false
			for range rapid.IntRange(1, 4).Draw(t, "charges") {
				c := core.Charge{
					Limiter: limiters[rapid.IntRange(0, len(limiters)-1).Draw(t, "limiter")],
					Key:     rapid.SampledFrom([]string{"ann", "ann", "bob"}).Draw(t, "key"),
					Units:   core.Units{core.Requests: rapid.Int64Range(0, 6).Draw(t, "requests"), "tokens": rapid.Int64Range(0, 15).Draw(t, "tokens")},
				}
				charges = append(charges, c)
				for _, l := range c.Limiter.Policy().Limits {
					n := c.Units[cmp.Or(l.Unit, core.Requests)]
					sums[c.Key][l.Name] += n
					never = never || sums[c.Key][l.Name] > l.Capacity
				}
			}
			before := map[string]map[string]int64{"ann": left("ann"), "bob": left("bob")}
			j, err := core.AllowTogether(ctx, charges...)
			require.NoError(t, err)
			for i, res := range j.Results {
				has := left(charges[i].Key)
				for _, l := range res.Limits() {
					require.Equal(t, charges[i].Units[cmp.Or(l.Limit.Unit, core.Requests)], l.Cost, "each charge tells its own cost")
					require.Equal(t, has[l.Limit.Name], l.Remaining, "charge %d tells what %q has after all charges; allowed %v", i, l.Limit.Name, j.Allowed)
				}
			}
			for key, had := range before {
				for name, has := range left(key) {
					want := had[name]
					if j.Allowed {
						want -= sums[key][name]
					}
					require.Equal(t, want, has, "%q of %s loses what all its charges cost if they are allowed, %v, or nothing", name, key, j.Allowed)
				}
			}
			if j.Allowed {
				continue
			}
			denials++
			require.Equal(t, never, j.RetryAfter == core.Never, "charges whose sum is above a Capacity can never pass: %v", sums)
			if !never {
				require.Positive(t, j.RetryAfter, "a denial tells when to ask again")
				clock.Move(j.RetryAfter - time.Microsecond)
				early, err := core.AllowTogether(ctx, charges...)
				require.NoError(t, err)
				require.False(t, early.Allowed, "1 µs before RetryAfter of %v", j.RetryAfter)
				clock.Move(time.Microsecond)
				again, err := core.AllowTogether(ctx, charges...)
				require.NoError(t, err)
				require.True(t, again.Allowed, "after RetryAfter of %v the same charges alone are allowed, not in %v", j.RetryAfter, again.RetryAfter)
			}
		}
	})
	assert.Greater(t, denials, 20, "the premise: requests are denied")
}

// Package storetest has the rules on the shares of charges of one bucket. These
// tests are about what is around them.

// sharedLimits are 7 slots, 10 requests and 900 tokens, whose estimates come
// back.
func sharedLimits() []core.Limit {
	return []core.Limit{core.InFlight(7).WithName("slots").WithMaxHold(time.Minute), core.PerDay(10).WithName("daily"),
		core.PerDay(900).WithName("tokens").WithUnit("tokens").WithMaxHold(time.Minute)}
}

// shares are charges of 2 slots and 100 tokens, and of 3 and 300.
func shares(l *core.Limiter) []core.Charge {
	return []core.Charge{
		{Limiter: l, Key: "k", Units: core.Units{core.Requests: 2, "tokens": 100}},
		{Limiter: l, Key: "k", Units: core.Units{core.Requests: 3, "tokens": 300}},
	}
}

// wantLeft checks what the limits of key k have left.
func wantLeft(t *testing.T, l *core.Limiter, rule string, want ...int64) {
	t.Helper()
	res, err := l.Peek(context.Background(), "k")
	require.NoError(t, err)
	var got []int64
	for _, limit := range res.Limits() {
		got = append(got, limit.Remaining)
	}
	assert.Equal(t, want, got, rule)
}

func mustTogether(t *testing.T, charges ...core.Charge) core.JointResult {
	t.Helper()
	j, err := core.AllowTogether(context.Background(), charges...)
	require.NoError(t, err)
	require.True(t, j.Allowed, "premise")
	return j
}

func TestSharesBesideOtherPolicies(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.ClockOption) core.Store) {
		ctx := t.Context()
		s := newStore(core.WithClock(limittest.NewClock().Now))
		limiter := func(name string, shadow bool) *core.Limiter {
			return core.Must(core.NewLimiter(s, core.Policy{Name: name, Limits: sharedLimits(), Shadow: shadow, OnFailure: core.FailClosed}))
		}
		one, two, trial := limiter("one", false), limiter("two", false), limiter("trial", true)
		tier := core.Must(one.WithLimits(sharedLimits()...))
		j := mustTogether(t, append(append(append(shares(one), core.Charge{Limiter: tier, Key: "k"}), shares(two)...), shares(trial)...)...)
		wantLeft(t, one, "two charges and one by another limiter of the policy", 1, 4, 500)
		wantLeft(t, two, "two charges", 2, 5, 500)
		wantLeft(t, trial, "two charges in shadow mode", 2, 5, 500)
		for i, res := range j.Results {
			want := []int64{1, 2, 2}[[]int{0, 0, 0, 1, 1, 2, 2}[i]]
			assert.Equal(t, want, res.Remaining, "charge %d tells the bucket after all", i)
		}
		require.NoError(t, j.Results[0].Release(ctx))
		require.NoError(t, j.Results[4].Undo(ctx))
		require.NoError(t, j.Results[5].Settle(ctx, core.Units{"tokens": 50}))
		wantLeft(t, one, "a release of the first", 3, 4, 500)
		wantLeft(t, two, "Undo of the second", 5, 8, 800)
		wantLeft(t, trial, "a settlement of the first", 2, 5, 550)
		require.NoError(t, j.Results[2].Release(ctx))
		wantLeft(t, one, "a release by the other limiter", 4, 4, 500)
		require.NoError(t, j.Release(ctx))
		wantLeft(t, one, "a release of all", 7, 4, 500)
		wantLeft(t, two, "a release of all", 7, 8, 800)
		wantLeft(t, trial, "a release of all", 7, 5, 550)

		denied, err := core.AllowTogether(ctx, append(shares(one), core.Charge{Limiter: two, Key: "k", Cost: 8})...)
		require.NoError(t, err)
		assert.False(t, denied.Allowed)
		for i := range denied.Results {
			require.NoError(t, denied.Results[i].Release(ctx))
			require.NoError(t, denied.Results[i].Undo(ctx))
		}
		wantLeft(t, one, "a denial by another policy holds no share", 7, 4, 500)

		full := mustTogether(t, core.Charge{Limiter: trial, Key: "k", Cost: 4}, core.Charge{Limiter: trial, Key: "k", Cost: 4})
		for i := range full.Results {
			assert.True(t, full.Results[i].ShadowDenied, "8 of 7 slots, in shadow mode")
			require.NoError(t, full.Results[i].Release(ctx))
		}
		wantLeft(t, trial, "and nothing is taken or given back", 7, 5, 550)
	})
}

// doStore is a store that decides no requests together.
type doStore struct {
	core.Store

	mu     sync.Mutex
	before func(n int, r store.Request) error // called before the n-th request of one decision
	n      int
}

func (s *doStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.mu.Lock()
	before, n := s.before, s.n
	s.n++
	s.mu.Unlock()
	if before != nil {
		if err := before(n, r); err != nil {
			return store.Answer{}, err
		}
	}
	return s.Store.Do(ctx, r)
}

func (s *doStore) set(before func(int, store.Request) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.n = before, 0
}

// A store that can't decide requests together takes the sum, and then the
// shares. Another request may come in between.
func TestSharesThatAnotherRequestTakesInBetween(t *testing.T) {
	ctx := t.Context()
	clock := limittest.NewClock()
	memory := core.NewMemoryStore(core.WithClock(clock.Now))
	s := &doStore{Store: memory}
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: sharedLimits(), OnFailure: core.FailClosed}))
	other := core.Must(core.NewLimiter(memory, core.Policy{Name: "api", Limits: sharedLimits()}))
	s.set(func(n int, _ store.Request) error {
		if n == 2 { // before the second share
			res, err := other.AllowN(ctx, "k", 5)
			assert.True(t, res.Allowed, "premise")
			return err
		}
		return nil
	})
	j, err := core.AllowTogether(ctx, shares(l)...)
	require.NoError(t, err)
	assert.False(t, j.Allowed, "another request has the slots of the second share")
	assert.Positive(t, j.RetryAfter)
	s.set(nil)
	wantLeft(t, other, "nothing is taken but by the other request", 2, 5, 900)
	for i := range j.Results {
		require.NoError(t, errors.Join(j.Results[i].Release(ctx), j.Results[i].Undo(ctx)))
	}
	wantLeft(t, other, "and nothing comes back", 2, 5, 900)
}

// An error of the store in between is one of the decision, so the policy's
// OnFailure decides it.
func TestSharesWithoutAnAnswer(t *testing.T) {
	for _, mode := range []core.FailureMode{core.FailClosed, core.FailLocal, core.FailOpen} {
		for fails := range 3 {
			ctx := t.Context()
			clock := limittest.NewClock()
			memory := core.NewMemoryStore(core.WithClock(clock.Now))
			s := &doStore{Store: memory}
			l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: sharedLimits(), OnFailure: mode}))
			s.set(func(n int, _ store.Request) error {
				if n == fails {
					return errors.New("away")
				}
				return nil
			})
			j, err := core.AllowTogether(ctx, shares(l)...)
			s.set(nil)
			wantLeft(t, l, "nothing is taken from a store that failed", 7, 10, 900)
			switch mode {
			case core.FailClosed:
				require.ErrorIs(t, err, core.ErrUnavailable, "call %d", fails)
				continue
			case core.FailOpen:
				require.NoError(t, err)
				assert.Equal(t, []int64{2, 3}, []int64{j.Results[0].Cost, j.Results[1].Cost})
			}
			require.NoError(t, err)
			assert.True(t, j.Allowed, "%v, call %d", mode, fails)
			for i := range j.Results {
				require.NoError(t, errors.Join(j.Results[i].Release(ctx), j.Results[i].Undo(ctx)))
			}
			wantLeft(t, l, "what another store held does not come back to this one", 7, 10, 900)
		}
	}
}

// What the store holds is ended there, and what the process holds under
// FailLocal in the process.
func TestSharesWhileAStoreComesAndGoes(t *testing.T) {
	ctx := t.Context()
	memory := core.NewMemoryStore(core.WithClock(limittest.NewClock().Now))
	s := &doStore{Store: memory}
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: sharedLimits()}))
	away := func(is bool) {
		s.set(nil)
		if is {
			s.set(func(int, store.Request) error { return errors.New("away") })
		}
	}
	inStore := mustTogether(t, shares(l)...)
	away(true)
	local := mustTogether(t, shares(l)...)
	for i := range local.Results {
		assert.Equal(t, core.FromFallback, local.Results[i].Source, "premise")
	}
	wantLeft(t, l, "the process's own", 2, 5, 500)
	require.ErrorIs(t, inStore.Results[0].Release(ctx), core.ErrUnavailable)
	require.NoError(t, local.Results[1].Release(ctx))
	wantLeft(t, l, "a share of the process", 5, 5, 500)
	away(false)
	require.NoError(t, local.Results[0].Undo(ctx))
	wantLeft(t, l, "a release that was lost comes back after MaxHold", 2, 5, 500)
	require.NoError(t, inStore.Results[1].Undo(ctx))
	wantLeft(t, l, "the other share is the store's", 5, 8, 800)
	away(true)
	wantLeft(t, l, "one undone and one released in the process", 7, 7, 600)
}

// Only the charges that hold something need shares. One of several holds what
// the request holds.
func TestChargesThatHoldNothingBesideOneThatDoes(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.ClockOption) core.Store) {
		ctx := t.Context()
		l := core.Must(core.NewLimiter(newStore(core.WithClock(limittest.NewClock().Now)), core.Policy{Name: "api", OnFailure: core.FailClosed,
			Limits: []core.Limit{core.PerDay(10).WithName("daily"), core.InFlight(5).WithUnit("gpus").WithName("gpus").WithMaxHold(time.Minute)}}))
		charge := func(units core.Units) core.Charge { return core.Charge{Limiter: l, Key: "k", Units: units} }
		j := mustTogether(t, charge(core.Units{core.Requests: 1}), charge(core.Units{"gpus": 2}), charge(core.Units{core.Requests: 0}))
		wantLeft(t, l, "two requests and two gpus", 8, 3)
		require.NoError(t, j.Results[0].Release(ctx))
		require.NoError(t, j.Results[2].Undo(ctx))
		wantLeft(t, l, "an end of what holds nothing", 8, 3)
		require.NoError(t, j.Results[0].Undo(ctx))
		wantLeft(t, l, "Undo of the request", 9, 3)
		require.NoError(t, j.Results[1].Hold(ctx))
		require.NoError(t, j.Results[1].Undo(ctx))
		wantLeft(t, l, "Undo of the gpus", 10, 5)
	})
}

// A bucket of estimates that has too many holds for all shares denies the
// request, and gives back what it took of others.
func TestSharesOfABucketWithTooManyHolds(t *testing.T) {
	const mostHolds = 2048
	bothstores.Run(t, func(t *testing.T, newStore func(store.ClockOption) core.Store) {
		ctx := t.Context()
		s := newStore(core.WithClock(limittest.NewClock().Now))
		estimates := core.PerDay(1_000_000).WithName("tokens").WithUnit("tokens").WithMaxHold(time.Hour)
		l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", OnFailure: core.FailClosed, Limits: []core.Limit{core.PerDay(1_000_000).WithName("daily"), estimates}}))
		all := core.Must(core.NewLimiter(s, core.Policy{Name: "all", OnFailure: core.FailClosed, Limits: []core.Limit{core.PerDay(5)}}))
		for range mostHolds - 1 {
			res, err := l.AllowUnits(ctx, "k", core.Units{"tokens": 1})
			require.NoError(t, err)
			require.True(t, res.Allowed)
		}
		charge := core.Charge{Limiter: l, Key: "k", Units: core.Units{"tokens": 1}}
		for _, charges := range [][]core.Charge{{charge, charge}, {charge, {Limiter: all, Key: "k"}, charge}} {
			j, err := core.AllowTogether(ctx, charges...)
			require.NoError(t, err)
			assert.False(t, j.Allowed, "there is room for one hold, and not for two")
			assert.Positive(t, j.RetryAfter)
			wantLeft(t, l, "what was taken came back", 1_000_000-mostHolds+1, 1_000_000-mostHolds+1)
			wantLeft(t, all, "and from others", 5)
		}
		mustTogether(t, charge)
	})
}

func TestObserversSeeTheSlotsOfEachShare(t *testing.T) {
	seen := &slotsSeen{}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(9).WithMaxHold(time.Hour)}},
		core.WithObserver(seen.observe)))
	inUse := func() int64 {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.inUse
	}
	j := mustTogether(t, core.Charge{Limiter: l, Key: "k", Cost: 2}, core.Charge{Limiter: l, Key: "k", Cost: 3})
	assert.EqualValues(t, 5, inUse())
	require.NoError(t, j.Results[0].Release(t.Context()))
	assert.EqualValues(t, 3, inUse(), "the first share is released")
	require.NoError(t, j.Release(t.Context()))
	assert.EqualValues(t, 0, inUse())
}
