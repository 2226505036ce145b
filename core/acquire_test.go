package core_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// askedStore is a store that is no MemoryStore, as those in other processes
// are. It counts what it is asked.
type askedStore struct {
	*core.MemoryStore

	asked atomic.Int64
	down  atomic.Bool
}

func (s *askedStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.asked.Add(1)
	if s.down.Load() {
		return store.Answer{}, errors.New("down")
	}
	return s.MemoryStore.Do(ctx, r)
}

// slotLimiter returns a limiter of limits that fails closed.
func slotLimiter(t *testing.T, s core.Store, limits ...core.Limit) *core.Limiter {
	t.Helper()
	l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: limits, OnFailure: core.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mustAcquire takes a slot.
func mustAcquire(t *testing.T, l *core.Limiter) *core.Result {
	t.Helper()
	res, err := l.Acquire(t.Context(), "k")
	if err != nil || !res.Allowed {
		t.Fatalf("Acquire: allowed %v, %v", res.Allowed, err)
	}
	return &res
}

// freeSlots returns how many slots of k are free.
func freeSlots(t *testing.T, l *core.Limiter) int64 {
	t.Helper()
	res, err := l.Peek(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return res.Limits()[0].Remaining
}

func TestAcquireTakesAFreeSlotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &askedStore{MemoryStore: core.NewMemoryStore()}
		l, began := slotLimiter(t, s, core.InFlight(2)), time.Now()
		mustAcquire(t, l)
		mustAcquire(t, l)
		if time.Since(began) > 0 || s.asked.Load() != 2 {
			t.Errorf("two free slots took %v and %d calls, want no time and a call each", time.Since(began), s.asked.Load())
		}
	})
}

func TestCallersOfAcquireWaitInTheirOrder(t *testing.T) {
	for name, s := range map[string]core.Store{"memory": core.NewMemoryStore(), "another": &askedStore{MemoryStore: core.NewMemoryStore()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := slotLimiter(t, s, core.InFlight(1).WithMaxHold(time.Hour))
				held := mustAcquire(t, l)
				var order []int
				var wg sync.WaitGroup
				for n := range 20 {
					wg.Go(func() {
						res, err := l.Acquire(t.Context(), "k")
						if err != nil {
							t.Errorf("Acquire: %v", err)
						}
						order = append(order, n)
						time.Sleep(time.Millisecond)
						if err := res.Release(t.Context()); err != nil {
							t.Errorf("Release: %v", err)
						}
					})
					synctest.Wait()
				}
				if err := held.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				wg.Wait()
				for i, n := range order {
					if i != n {
						t.Fatalf("callers of one process get slots in the order of their calls: %v", order)
					}
				}
			})
		})
	}
}

// A release in this process wakes the first waiter at once. But once a second a
// slot is left to other processes for up to 50 ms.
func TestReleaseWakesAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &askedStore{MemoryStore: core.NewMemoryStore()}
		l := slotLimiter(t, s, core.InFlight(1).WithMaxHold(time.Hour))
		held := mustAcquire(t, l)
		late := 0
		for range 60 {
			got := make(chan *core.Result)
			go func() { got <- mustAcquire(t, l) }()
			time.Sleep(100 * time.Millisecond)
			released := time.Now()
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			held = <-got
			switch waited := time.Since(released); {
			case waited > 50*time.Millisecond:
				t.Errorf("a slot that was released is taken %v later, want at most 50ms", waited)
			case waited > 0:
				late++
			}
		}
		if late > 6 {
			t.Errorf("in 6 seconds %d of 60 released slots were left to other processes, want at most one a second", late)
		}
	})
}

func TestAcquireAsksNoMoreThanItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &askedStore{MemoryStore: core.NewMemoryStore()}
		l := slotLimiter(t, s, core.InFlight(1).WithMaxHold(time.Hour))
		mustAcquire(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a wait that exceeds its context's deadline: %v, want DeadlineExceeded", err)
				}
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
		s := &askedStore{MemoryStore: core.NewMemoryStore()}
		l := slotLimiter(t, s, core.InFlight(3).WithMaxHold(time.Hour), core.PerDay(2000).WithName("daily"))
		held := []*core.Result{mustAcquire(t, l), mustAcquire(t, l), mustAcquire(t, l)}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if res, err := l.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) || res.Allowed {
					t.Errorf("a waiter whose context ended: allowed %v, %v, want Canceled", res.Allowed, err)
				}
			})
		}
		last := make(chan *core.Result)
		time.Sleep(time.Second)
		go func() { last <- mustAcquire(t, l) }() // behind all of them
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		wg.Wait()
		if took := time.Since(began); took > 0 {
			t.Errorf("waiters returned %v after their contexts ended, want at once", took)
		}
		if err := held[0].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		held[0] = <-last
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the waiter behind 1,000 that left gets its slot after %v, want within 50ms", took)
		}
		for _, r := range held {
			if err := r.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		res, err := l.Peek(t.Context(), "k")
		if limits := res.Limits(); err != nil || limits[0].Remaining != 3 || limits[1].Remaining != 1996 {
			t.Errorf("1,000 waiters that left took something along: %d of 3 slots and %d of 1,996 tokens are left, %v",
				limits[0].Remaining, limits[1].Remaining, err)
		}
	})
}

func TestAcquireWithAContextThatHasEnded(t *testing.T) {
	l := slotLimiter(t, core.NewMemoryStore(), core.InFlight(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire under a context that has ended: %v, want Canceled", err)
	}
	if n := freeSlots(t, l); n != 1 {
		t.Errorf("Acquire under a context that has ended took a slot: %d free", n)
	}
}

func TestAcquireGetsASlotWhoseProcessDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slotLimiter(t, &askedStore{MemoryStore: core.NewMemoryStore()}, core.InFlight(1).WithMaxHold(3*time.Second))
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
		s := &askedStore{MemoryStore: core.NewMemoryStore()}
		l := slotLimiter(t, s, core.InFlight(5), core.PerMinute(1).WithName("rate"))
		mustAcquire(t, l)
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		if _, err := l.Acquire(short, "k"); !errors.Is(err, core.ErrDeadline) || time.Since(began) > 0 {
			t.Errorf("tokens come after the deadline: %v after %v, want ErrDeadline at once", err, time.Since(began))
		}
		if n := freeSlots(t, l); n != 4 {
			t.Errorf("ErrDeadline takes nothing: %d slots are free, want 4", n)
		}
		before := s.asked.Load()
		mustAcquire(t, l)
		if took, n := time.Since(began), s.asked.Load()-before; took != time.Minute || n > 3 {
			t.Errorf("a token comes after a minute: Acquire took %v and %d calls, want a minute and at most 3", took, n)
		}
	})
}

func TestAcquireReturnsTheErrorsOfAllow(t *testing.T) {
	s := &askedStore{MemoryStore: core.NewMemoryStore()}
	l := slotLimiter(t, s, core.InFlight(1))
	if _, err := l.Acquire(t.Context(), ""); !errors.Is(err, core.ErrNoKey) {
		t.Errorf("Acquire of no key: %v, want ErrNoKey", err)
	}
	mustAcquire(t, l)
	s.down.Store(true)
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("Acquire while the store is away: %v, want ErrUnavailable", err)
	}
	for name, reserve := range map[string]func() error{
		"Reserve": func() error { _, err := l.Reserve(t.Context(), "k", 1); return err },
		"Wait":    func() error { return l.Wait(t.Context(), "k") },
	} {
		if err := reserve(); !errors.Is(err, core.ErrSlots) {
			t.Errorf("%s of a policy with slots: %v, want ErrSlots", name, err)
		}
	}
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
			limit := core.InFlight(1).WithMaxHold(time.Hour)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(c.slots)*c.work)
			defer cancel()
			var got [2]atomic.Int64
			var wg sync.WaitGroup
			for p, callers := range c.callers {
				l := slotLimiter(t, &askedStore{MemoryStore: s}, limit)
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
				if n := got[p].Load(); n < int64(c.least) {
					t.Errorf("%d and %d callers of two processes work for %v each: process %d gets %d slots of about %d, want at least %d: none starves",
						c.callers[0], c.callers[1], c.work, p, n, c.slots, c.least)
				}
			}
		})
	}
}
