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
	clock := limittest.NewClock()
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(clock.Now)), "api",
		core.PerMinute(10).WithName("burst"), core.PerHour(12), core.PerDay(100).WithName("day").WithMode(core.Stepped))
	if _, err := l.AllowN(t.Context(), "user", 10); err != nil {
		t.Fatal(err)
	}
	res, err := l.AllowN(t.Context(), "user", 3)
	if err != nil {
		t.Fatal(err)
	}
	if res.Allowed || res.Cost != 3 || res.Source != core.FromStore || res.Cause != nil {
		t.Errorf("a denial by the store: %+v", res)
	}
	// The hour has the longest RetryAfter: 1 of 3 tokens is missing, 12 come in
	// 60 minutes.
	if res.Remaining != 2 || res.RetryAfter != 5*time.Minute || res.ResetAfter != 24*time.Hour {
		t.Errorf("the result describes the tightest limit: %d left, retry after %v, full in %v; want 2, 5m, 24h", res.Remaining, res.RetryAfter, res.ResetAfter)
	}
	want := []core.LimitResult{
		{Limit: core.PerMinute(10).WithName("burst"), Cost: 3, Remaining: 0, Violated: true, RetryAfter: 18 * time.Second, ResetAfter: time.Minute},
		{Limit: core.PerHour(12).WithName("api-1h"), Cost: 3, Remaining: 2, Violated: true, RetryAfter: 5 * time.Minute, ResetAfter: 50 * time.Minute},
		{Limit: core.PerDay(100).WithName("day").WithMode(core.Stepped), Cost: 3, Remaining: 90, ResetAfter: 24 * time.Hour},
	}
	got := res.Limits()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("limit %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
	never, err := l.AllowN(t.Context(), "user", 13)
	if err != nil || never.Allowed || never.RetryAfter != core.Never {
		t.Fatalf("13 of 12 an hour: allowed %v, retry after %v, %v", never.Allowed, never.RetryAfter, err)
	}
	for i, retry := range []time.Duration{core.Never, core.Never, 0} {
		if got := never.Limits()[i].RetryAfter; got != retry {
			t.Errorf("limit %d: a cost of 13 has RetryAfter %v, want %v", i, got, retry)
		}
	}
}

func TestResultWithoutDecisionHasNoLimits(t *testing.T) {
	if got := (core.Result{}).Limits(); got != nil {
		t.Errorf("the zero Result must have no limits: %+v", got)
	}
	h := http.Header{}
	core.Result{}.WriteHeaders(h)
	if len(h) > 0 {
		t.Errorf("the zero Result must write no headers: %v", h)
	}
}

func TestReleaseAndHoldOfAResultWithoutSlots(t *testing.T) {
	ctx := context.Background()
	s := &askedStore{MemoryStore: core.NewMemoryStore()}
	rate := slotLimiter(t, s, core.PerDay(5))
	gpus, err := core.NewLimiter(s, core.Policy{Name: "gpus", OnFailure: core.FailClosed,
		Limits: []core.Limit{core.InFlight(1).WithUnit("gpus"), core.PerDay(100).WithName("daily")}})
	if err != nil {
		t.Fatal(err)
	}
	var none core.Result
	if !errors.Is(none.Release(ctx), core.ErrNoDecision) || !errors.Is(none.Hold(ctx), core.ErrNoDecision) {
		t.Errorf("a Result that no limiter returned: %v and %v, want ErrNoDecision", none.Release(ctx), none.Hold(ctx))
	}
	ofRate, _ := rate.Allow(ctx, "k")
	peeked, _ := gpus.Peek(ctx, "k")
	noSlot, _ := gpus.Allow(ctx, "k")
	if res, _ := gpus.AllowUnits(ctx, "k", core.Units{"gpus": 1}); !res.Allowed {
		t.Error("premise: a slot is free")
	}
	denied, _ := gpus.AllowUnits(ctx, "k", core.Units{"gpus": 1})
	before := s.asked.Load()
	for name, r := range map[string]*core.Result{"a rate": &ofRate, "a Peek": &peeked, "a request that takes no slot": &noSlot, "a denial": &denied} {
		if err := errors.Join(r.Release(ctx), r.Hold(ctx)); err != nil {
			t.Errorf("Release and Hold of %s: %v, want nothing to do", name, err)
		}
	}
	if n := s.asked.Load() - before; n > 0 {
		t.Errorf("results without slots asked the store %d times to release or hold them", n)
	}
}

func TestReleaseUnderAContextThatHasEnded(t *testing.T) {
	l := slotLimiter(t, &askedStore{MemoryStore: core.NewMemoryStore()}, core.InFlight(2))
	ctx, cancel := context.WithCancel(t.Context())
	first, second := mustAcquire(t, l), mustAcquire(t, l)
	cancel()
	if err := first.Hold(ctx); err != nil {
		t.Errorf("Hold under a context that has ended: %v", err)
	}
	if err := first.Release(ctx); err != nil {
		t.Errorf("Release under a context that has ended: %v", err)
	}
	if err := second.Undo(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Undo under a context that has ended: %v, want Canceled", err)
	}
	if n := freeSlots(t, l); n != 1 {
		t.Errorf("Release works under a context that has ended: %d slots are free, want 1", n)
	}
	if err := second.Undo(t.Context()); err != nil || freeSlots(t, l) != 2 {
		t.Errorf("an Undo that was not sent can be called again: %v", err)
	}
}

func TestReleaseIsSentAtMostOnce(t *testing.T) {
	s := &askedStore{MemoryStore: core.NewMemoryStore()}
	l := slotLimiter(t, s, core.InFlight(1).WithMaxHold(time.Hour))
	held := mustAcquire(t, l)
	s.down.Store(true)
	for range 2 {
		if err := held.Hold(t.Context()); !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("Hold while the store is away: %v, want ErrUnavailable", err)
		}
	}
	s.down.Store(false)
	if err := held.Hold(t.Context()); err != nil {
		t.Errorf("a Hold without an answer can be called again: %v", err)
	}
	s.down.Store(true)
	before := s.asked.Load()
	if err := held.Release(t.Context()); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("Release while the store is away: %v, want ErrUnavailable", err)
	}
	s.down.Store(false)
	if err := held.Release(t.Context()); err != nil || s.asked.Load() != before+1 {
		t.Errorf("a release is sent at most once: %d times, %v", s.asked.Load()-before, err)
	}
}

// A Hold that meets a Release never leaves the slot out.
func TestHoldAndReleaseOfOneResultMeet(t *testing.T) {
	l := slotLimiter(t, &askedStore{MemoryStore: core.NewMemoryStore()}, core.InFlight(1).WithMaxHold(time.Hour))
	for range 200 {
		res := mustAcquire(t, l)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := res.Hold(t.Context()); err != nil && !errors.Is(err, core.ErrSettled) {
					t.Errorf("Hold beside a Release: %v, want nil or ErrSettled", err)
				}
			})
		}
		again := *res
		for _, r := range []*core.Result{res, &again} {
			wg.Go(func() {
				if err := r.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
			})
		}
		wg.Wait()
		if n := freeSlots(t, l); n != 1 {
			t.Fatalf("a slot that was released is free, whatever Hold came beside it: %d free", n)
		}
	}
}

// Under FailLocal the process counts slots by itself. What was out in the store
// stays out there, until it is released or MaxHold is over.
func TestFailLocalCountsSlotsInTheProcess(t *testing.T) {
	now := time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)
	clock := core.WithClock(func() time.Time { return now })
	s := &askedStore{MemoryStore: core.NewMemoryStore(clock)}
	l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(4).WithMaxHold(time.Minute)}, LocalShare: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	take := func() *core.Result {
		res, err := l.Allow(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		return &res
	}
	inStore, lost := take(), take()
	s.down.Store(true)
	local := []*core.Result{take(), take()}
	for _, r := range local {
		if !r.Allowed || r.Source != core.FromFallback {
			t.Errorf("half of 4 slots are the process's own: allowed %v by %v", r.Allowed, r.Source)
		}
	}
	if take().Allowed {
		t.Error("a third slot of half of 4 is allowed")
	}
	if err := lost.Release(t.Context()); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("a slot in a store that is away: Release = %v, want ErrUnavailable", err)
	}
	if err := local[0].Release(t.Context()); err != nil {
		t.Errorf("a slot of the process: Release = %v", err)
	}
	if local[0] = take(); !local[0].Allowed {
		t.Error("a slot that the process has released is there at once")
	}
	s.down.Store(false)
	if n := freeSlots(t, l); n != 2 {
		t.Errorf("2 slots are out in the store: %d free, want 2", n)
	}
	before := s.asked.Load()
	if err := errors.Join(local[0].Release(t.Context()), local[1].Hold(t.Context()), local[1].Release(t.Context())); err != nil || s.asked.Load() != before {
		t.Errorf("slots of the process go back to the process: %v, and %d calls to the store", err, s.asked.Load()-before)
	}
	if err := inStore.Release(t.Context()); err != nil || freeSlots(t, l) != 3 {
		t.Errorf("a slot of the store is released there: %v", err)
	}
	now = now.Add(time.Minute)
	if n := freeSlots(t, l); n != 4 {
		t.Errorf("a slot whose release was lost comes back after MaxHold: %d free, want 4", n)
	}
}

func TestUndoWakesAcquire(t *testing.T) {
	l := slotLimiter(t, core.NewMemoryStore(), core.InFlight(1).WithMaxHold(time.Hour))
	held := mustAcquire(t, l)
	got := make(chan *core.Result)
	go func() { got <- mustAcquire(t, l) }()
	if err := held.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case <-time.After(time.Minute):
		t.Error("a slot that Undo gave back reaches the waiter")
	}
}

func TestAResultKnowsItsKey(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerHour(1))
	for _, want := range []bool{true, false} {
		res, err := l.Allow(t.Context(), "ip:192.0.2.1")
		require.NoError(t, err)
		require.Equal(t, want, res.Allowed)
		assert.Equal(t, "ip:192.0.2.1", res.Key)
	}
	joint, err := core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "ann"}, core.Charge{Limiter: l, Key: "bob"})
	require.NoError(t, err)
	assert.Equal(t, []string{"", "ann", "bob"}, []string{joint.Key, joint.Parts[0].Key, joint.Parts[1].Key})
}
