package core_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestResultReportsEachLimit(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(limittest.NewClock().Now)), "api",
		core.PerMinute(10).WithName("burst"), core.PerHour(12), core.PerDay(100).WithName("day").WithMode(core.Stepped))
	allow(t, l, 10)
	res := core.Must(l.AllowN(t.Context(), "k", 3))
	assert.False(t, res.Allowed)
	assert.EqualValues(t, 3, res.Cost)
	assert.Equal(t, core.FromStore, res.Source)
	assert.NoError(t, res.Cause)
	// The hour has the longest RetryAfter: 1 of 3 tokens is missing, 12 come in
	// 60 minutes.
	assert.Equal(t, []any{int64(2), 5 * time.Minute, 24 * time.Hour}, []any{res.Remaining, res.RetryAfter, res.ResetAfter},
		"the result describes the tightest limit")
	assert.Equal(t, []core.LimitResult{
		{Limit: core.PerMinute(10).WithName("burst"), Cost: 3, Remaining: 0, Violated: true, RetryAfter: 18 * time.Second, ResetAfter: time.Minute},
		{Limit: core.PerHour(12).WithName("api-1h"), Cost: 3, Remaining: 2, Violated: true, RetryAfter: 5 * time.Minute, ResetAfter: 50 * time.Minute},
		{Limit: core.PerDay(100).WithName("day").WithMode(core.Stepped), Cost: 3, Remaining: 90, ResetAfter: 24 * time.Hour},
	}, res.Limits())
	never := core.Must(l.AllowN(t.Context(), "k", 13))
	assert.Equal(t, core.Never, never.RetryAfter, "13 of 12 an hour")
	for i, retry := range []time.Duration{core.Never, core.Never, 0} {
		assert.Equal(t, retry, never.Limits()[i].RetryAfter, "limit %d: a cost of 13", i)
	}
}

// Tests of handlers make Results that no limiter returned.
func TestResultThatNoLimiterReturned(t *testing.T) {
	ctx := t.Context()
	for _, res := range []core.Result{
		{}, {Allowed: true, Cost: 3}, {Allowed: true, Parts: []core.Result{{Allowed: true}}}, {Parts: []core.Result{{}, {Allowed: true}}},
	} {
		for name, err := range map[string]error{"Undo": res.Undo(ctx), "Settle": res.Settle(ctx, nil), "Release": res.Release(ctx), "Hold": res.Hold(ctx)} {
			assert.ErrorIs(t, err, core.ErrNoDecision, "%s of %+v", name, res)
		}
		assert.Nil(t, res.Limits())
		h := http.Header{}
		res.WriteHeaders(h)
		assert.NotContains(t, h, "Ratelimit")
		assert.Equal(t, http.StatusTooManyRequests, core.Problem(res).Status)
		if res.Parts != nil {
			assert.ErrorIs(t, res.Settle(ctx, core.Units{core.Requests: 1}), core.ErrUnit, "no limiter counts anything")
		}
	}
	failed, err := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(10)).AllowN(ctx, "k", -1)
	require.ErrorIs(t, err, core.ErrCost)
	require.NoError(t, failed.Undo(ctx), "a decision that failed took nothing")
}

func TestReleaseAndHoldOfAResultWithoutSlots(t *testing.T) {
	ctx := t.Context()
	s := newAskedStore()
	gpus := limittest.Limiter(t, s, "gpus", core.InFlight(1).WithUnit("gpus"), core.PerDay(100).WithName("daily"))
	ofRate := core.Must(limittest.Limiter(t, s, "api", core.PerDay(5)).Allow(ctx, "k"))
	peeked := core.Must(gpus.Peek(ctx, "k"))
	noSlot := core.Must(gpus.Allow(ctx, "k"))
	require.True(t, core.Must(gpus.AllowUnits(ctx, "k", core.Units{"gpus": 1})).Allowed, "premise: a slot is free")
	denied := core.Must(gpus.AllowUnits(ctx, "k", core.Units{"gpus": 1}))
	before := s.asked.Load()
	for name, r := range map[string]*core.Result{"a rate": &ofRate, "a Peek": &peeked, "a request that takes no slot": &noSlot, "a denial": &denied} {
		assert.NoError(t, errors.Join(r.Release(ctx), r.Hold(ctx)), "Release and Hold of %s have nothing to do", name)
	}
	assert.Equal(t, before, s.asked.Load(), "results without slots don't ask the store")
}

func TestReleaseUnderAContextThatHasEnded(t *testing.T) {
	l := limittest.Limiter(t, newAskedStore(), "api", core.InFlight(2))
	ctx, cancel := context.WithCancel(t.Context())
	first, second := mustAcquire(t, l), mustAcquire(t, l)
	cancel()
	require.NoError(t, first.Hold(ctx))
	require.NoError(t, first.Release(ctx))
	require.ErrorIs(t, second.Undo(ctx), context.Canceled)
	wantLeft(t, l, "Release works under a context that has ended", 1)
	require.NoError(t, second.Undo(t.Context()))
	wantLeft(t, l, "an Undo that was not sent can be called again", 2)
}

func TestReleaseIsSentAtMostOnce(t *testing.T) {
	s := newAskedStore()
	held := mustAcquire(t, limittest.Limiter(t, s, "api", oneSlot))
	s.down.Store(true)
	for range 2 {
		require.ErrorIs(t, held.Hold(t.Context()), core.ErrUnavailable, "Hold while the store is away")
	}
	s.down.Store(false)
	require.NoError(t, held.Hold(t.Context()), "a Hold without an answer can be called again")
	s.down.Store(true)
	before := s.asked.Load()
	require.ErrorIs(t, held.Release(t.Context()), core.ErrUnavailable, "Release while the store is away")
	s.down.Store(false)
	require.NoError(t, held.Release(t.Context()))
	assert.Equal(t, before+1, s.asked.Load(), "a release is sent at most once")
}

// A Hold that meets a Release never leaves the slot out.
func TestHoldAndReleaseOfOneResultMeet(t *testing.T) {
	l := limittest.Limiter(t, newAskedStore(), "api", oneSlot)
	for range 200 {
		res := mustAcquire(t, l)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := res.Hold(t.Context()); err != nil {
					assert.ErrorIs(t, err, core.ErrSettled, "Hold beside a Release")
				}
			})
		}
		again := *res
		for _, r := range []*core.Result{res, &again} {
			wg.Go(func() { assert.NoError(t, r.Release(t.Context())) })
		}
		wg.Wait()
		require.Equal(t, []int64{1}, left(t, l), "a slot that was released is free, whatever Hold came beside it")
	}
}

// Under FailLocal the process counts slots by itself. What was out in the store
// stays out there, until it is released or MaxHold is over.
func TestFailLocalCountsSlotsInTheProcess(t *testing.T) {
	ctx, clock := t.Context(), limittest.NewClock()
	s := newAskedStore(core.WithClock(clock.Now))
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(4).WithMaxHold(time.Minute)}, LocalShare: 0.5}))
	inStore, lost := allow(t, l, 1), allow(t, l, 1)
	s.down.Store(true)
	local := []*core.Result{allow(t, l, 1), allow(t, l, 1)}
	assert.Equal(t, core.FromFallback, local[1].Source, "half of 4 slots are the process's own")
	assert.False(t, core.Must(l.Allow(ctx, "k")).Allowed, "a third slot of half of 4")
	require.ErrorIs(t, lost.Release(ctx), core.ErrUnavailable, "a slot in a store that is away")
	require.NoError(t, local[0].Release(ctx))
	local[0] = allow(t, l, 1) // a slot that the process has released is there at once
	s.down.Store(false)
	wantLeft(t, l, "2 slots are out in the store", 2)
	before := s.asked.Load()
	require.NoError(t, errors.Join(local[0].Release(ctx), local[1].Hold(ctx), local[1].Release(ctx)))
	assert.Equal(t, before, s.asked.Load(), "slots of the process go back to the process")
	require.NoError(t, inStore.Release(ctx))
	wantLeft(t, l, "a slot of the store is released there", 3)
	clock.Move(time.Minute)
	wantLeft(t, l, "a slot whose release was lost comes back after MaxHold", 4)
}

func TestAResultKnowsItsKey(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(1))
	for _, want := range []bool{true, false} {
		res := core.Must(l.Allow(t.Context(), "ip:192.0.2.1"))
		require.Equal(t, want, res.Allowed)
		assert.Equal(t, "ip:192.0.2.1", res.Key)
	}
	joint := core.Must(core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "ann"}, core.Charge{Limiter: l, Key: "bob"}))
	assert.Equal(t, []string{"", "ann", "bob"}, []string{joint.Key, joint.Parts[0].Key, joint.Parts[1].Key})
}
