package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// mustAcquire takes a slot.
func mustAcquire(t *testing.T, l *core.Limiter) *core.Result {
	t.Helper()
	res, err := l.Acquire(t.Context(), "k")
	if err != nil || !res.Allowed {
		t.Fatalf("Acquire: allowed %v, %v", res.Allowed, err)
	}
	return &res
}

// oneSlot is held for so long that only a release frees it.
var oneSlot = core.InFlight(1).WithMaxHold(time.Hour)

func TestAcquireTakesAFreeSlotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAskedStore()
		l, began := limittest.Limiter(t, s, "api", core.InFlight(2)), time.Now()
		mustAcquire(t, l)
		mustAcquire(t, l)
		assert.Zero(t, time.Since(began), "two free slots take no time")
		assert.EqualValues(t, 2, s.asked.Load(), "and a call each")
	})
}

func TestCallersOfAcquireWaitInTheirOrder(t *testing.T) {
	for name, s := range map[string]core.Store{"memory": core.NewMemoryStore(), "another": newAskedStore()} {
		synctest.Test(t, func(t *testing.T) {
			l := limittest.Limiter(t, s, "api", oneSlot)
			held := mustAcquire(t, l)
			var order, want []int
			var wg sync.WaitGroup
			for n := range 20 {
				wg.Go(func() {
					res, err := l.Acquire(t.Context(), "k")
					assert.NoError(t, err)
					order = append(order, n)
					time.Sleep(time.Millisecond)
					assert.NoError(t, res.Release(t.Context()))
				})
				want = append(want, n)
				synctest.Wait()
			}
			require.NoError(t, held.Release(t.Context()))
			wg.Wait()
			assert.Equal(t, want, order, "%s: callers of one process get slots in the order of their calls", name)
		})
	}
}

// A release in this process wakes the first waiter at once. But once a second a
// slot is left to other processes for up to 50 ms.
func TestReleaseWakesAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limittest.Limiter(t, newAskedStore(), "api", oneSlot)
		held := mustAcquire(t, l)
		late := 0
		for range 60 {
			got := make(chan *core.Result)
			go func() { got <- mustAcquire(t, l) }()
			time.Sleep(100 * time.Millisecond)
			released := time.Now()
			require.NoError(t, held.Release(t.Context()))
			held = <-got
			waited := time.Since(released)
			assert.LessOrEqual(t, waited, 50*time.Millisecond, "a slot that was released is taken soon")
			if waited > 0 {
				late++
			}
		}
		assert.LessOrEqual(t, late, 6, "in 6 seconds at most one slot a second is left to other processes")
	})
}

func TestUndoWakesAcquire(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", oneSlot)
	held := mustAcquire(t, l)
	got := make(chan *core.Result)
	go func() { got <- mustAcquire(t, l) }()
	require.NoError(t, held.Undo(t.Context()))
	select {
	case <-got:
	case <-time.After(time.Minute):
		t.Error("a slot that Undo gave back reaches the waiter")
	}
}

func TestAcquireAsksNoMoreThanItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAskedStore()
		l := limittest.Limiter(t, s, "api", oneSlot)
		mustAcquire(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				_, err := l.Acquire(ctx, "k")
				assert.ErrorIs(t, err, context.DeadlineExceeded, "a wait that exceeds its context's deadline")
			})
		}
		before := s.asked.Load()
		wg.Wait()
		if n := s.asked.Load() - before; n < 200 || n > 401 {
			t.Errorf("1,000 waiters asked the store %d times in 10 seconds, want 20 to 40 times a second", n)
		}
	})
}

func TestWaitersThatLeaveTakeNothingAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limittest.Limiter(t, newAskedStore(), "api", core.InFlight(3).WithMaxHold(time.Hour), core.PerDay(2000).WithName("daily"))
		held := []*core.Result{mustAcquire(t, l), mustAcquire(t, l), mustAcquire(t, l)}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				res, err := l.Acquire(ctx, "k")
				assert.ErrorIs(t, err, context.Canceled, "a waiter whose context ended")
				assert.False(t, res.Allowed)
			})
		}
		last := make(chan *core.Result)
		time.Sleep(time.Second)
		go func() { last <- mustAcquire(t, l) }() // behind all of them
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		wg.Wait()
		assert.Zero(t, time.Since(began), "waiters return as soon as their contexts end")
		require.NoError(t, held[0].Release(t.Context()))
		held[0] = <-last
		assert.LessOrEqual(t, time.Since(began), 50*time.Millisecond, "the waiter behind 1,000 that left gets its slot soon")
		for _, r := range held {
			require.NoError(t, r.Release(t.Context()))
		}
		wantLeft(t, l, "1,000 waiters that left took nothing along", 3, 1996)
	})
}

func TestAcquireWithAContextThatHasEnded(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.InFlight(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Acquire(ctx, "k")
	require.ErrorIs(t, err, context.Canceled)
	wantLeft(t, l, "it takes no slot", 1)
}

func TestAcquireGetsASlotWhoseProcessDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limittest.Limiter(t, newAskedStore(), "api", core.InFlight(1).WithMaxHold(3*time.Second))
		began := time.Now()
		mustAcquire(t, l)
		mustAcquire(t, l)
		if took := time.Since(began); took < 3*time.Second || took > 3*time.Second+50*time.Millisecond {
			t.Errorf("a slot that nobody releases is taken after %v, want when MaxHold is over, after 3s", took)
		}
	})
}

func TestAcquireWaitsForTokensToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAskedStore()
		l := limittest.Limiter(t, s, "api", core.InFlight(5), core.PerMinute(1).WithName("rate"))
		mustAcquire(t, l)
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		_, err := l.Acquire(short, "k")
		require.ErrorIs(t, err, core.ErrDeadline, "tokens come after the deadline")
		assert.Zero(t, time.Since(began), "ErrDeadline comes at once")
		wantLeft(t, l, "ErrDeadline takes nothing", 4, 0)
		before := s.asked.Load()
		mustAcquire(t, l)
		assert.Equal(t, time.Minute, time.Since(began), "a token comes after a minute")
		assert.LessOrEqual(t, s.asked.Load()-before, int64(3))
	})
}

func TestAcquireReturnsTheErrorsOfAllow(t *testing.T) {
	s := newAskedStore()
	l := limittest.Limiter(t, s, "api", core.InFlight(1))
	mustAcquire(t, l)
	s.down.Store(true)
	_, err := l.Acquire(t.Context(), "k")
	require.ErrorIs(t, err, core.ErrUnavailable, "while the store is away")
	_, err = l.Reserve(t.Context(), "k", 1)
	require.ErrorIs(t, err, core.ErrSlots, "Reserve of a policy with slots")
	require.ErrorIs(t, l.Wait(t.Context(), "k"), core.ErrSlots, "Wait of a policy with slots")
}

// Two limiters on one store are as two processes: neither wakes the other.
func TestNoProcessStarvesInAcquire(t *testing.T) {
	for _, c := range []struct {
		callers [2]int
		work    time.Duration
		slots   int // how many one process alone could have in that time
		least   int // how many each process gets
	}{
		{[2]int{10, 1}, 5 * time.Millisecond, 4000, 5}, // once a second
		{[2]int{1, 1}, 5 * time.Millisecond, 4000, 5},
		{[2]int{1, 1}, 10 * time.Second, 100, 15}, // whoever works for long leaves its slot to others each time
		{[2]int{10, 1}, 10 * time.Second, 100, 15},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := core.NewMemoryStore()
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(c.slots)*c.work)
			defer cancel()
			var got [2]atomic.Int64
			var wg sync.WaitGroup
			for p, callers := range c.callers {
				l := limittest.Limiter(t, &askedStore{Store: s}, "api", oneSlot)
				for range callers {
					wg.Go(func() {
						for {
							res, err := l.Acquire(ctx, "k")
							if err != nil {
								return
							}
							time.Sleep(c.work)
							got[p].Add(1)
							_ = res.Release(ctx)
						}
					})
				}
			}
			wg.Wait()
			for p := range got {
				assert.GreaterOrEqual(t, int(got[p].Load()), c.least, "none starves: %d and %d callers of two processes work for %v each, and process %d gets too few of about %d slots",
					c.callers[0], c.callers[1], c.work, p, c.slots)
			}
		})
	}
}
