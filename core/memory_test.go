package core_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestMemoryStoreKeepsItsBound(t *testing.T) {
	for _, bound := range []int{1, 2, 3, 100, 4096} {
		store := core.NewMemoryStore(core.WithMaxKeys(bound), core.WithClock(limittest.NewClock().Now))
		l := limittest.Limiter(t, store, "api", core.PerDay(10))
		for i := range 2*bound + 10 {
			limittest.Use(t, l, strconv.Itoa(i), 1)
			if want := min(i+1, bound); store.Len() != want {
				t.Fatalf("a store of at most %d keys holds %d after %d, want %d", bound, store.Len(), i+1, want)
			}
		}
	}
}

func TestLargeMemoryStoreKeepsItsBoundUnderConcurrency(t *testing.T) {
	const bound, goroutines = 10_000, 64
	store := core.NewMemoryStore(core.WithMaxKeys(bound))
	l := limittest.Limiter(t, store, "api", core.PerDay(10))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range 1000 {
				if _, err := l.Allow(t.Context(), fmt.Sprint(g, "-", i)); err != nil {
					t.Error(err)
				}
				if n := store.Len(); n > bound+goroutines {
					t.Errorf("a store of at most %d keys holds %d", bound, n)
				}
			}
		})
	}
	wg.Wait()
	if n := store.Len(); n < bound-64 {
		t.Errorf("a store of at most %d keys kept only %d of 64,000: it must not drop keys without need", bound, n)
	}
}

func TestLenCountsKeys(t *testing.T) {
	store := core.NewMemoryStore()
	api, other := limittest.Limiter(t, store, "api", core.PerDay(10), core.PerHour(10)), limittest.Limiter(t, store, "other", core.PerDay(10))
	for i, c := range []struct {
		rule string
		do   func()
		want int
	}{
		{"a new store is empty", func() {}, 0},
		{"a peek stores nothing", func() { limittest.Left(t, api, "a") }, 0},
		{"a key counts once, whatever its limits", func() { limittest.Use(t, api, "a", 1); limittest.Use(t, api, "a", 1) }, 1},
		{"a policy's keys are its own", func() { limittest.Use(t, other, "a", 1) }, 2},
		{"a denied request of a new key stores nothing", func() { _, _ = api.AllowN(t.Context(), "b", 11) }, 2},
		{"a refund to a new key stores nothing", func() { _ = api.Refund(t.Context(), "c", 1) }, 2},
		{"a reset forgets", func() { _ = api.Reset(t.Context(), "a") }, 1},
		{"a reset of an unused key changes nothing", func() { _ = api.Reset(t.Context(), "a") }, 1},
	} {
		if c.do(); store.Len() != c.want {
			t.Errorf("step %d, %s: Len() = %d, want %d", i, c.rule, store.Len(), c.want)
		}
	}
}

func TestLeastRecentlyUsedIsDroppedFirst(t *testing.T) {
	store := core.NewMemoryStore(core.WithMaxKeys(3), core.WithClock(limittest.NewClock().Now))
	l := limittest.Limiter(t, store, "api", core.PerDay(10))
	for _, key := range []string{"a", "b", "c"} {
		limittest.Use(t, l, key, 5)
	}
	limittest.Use(t, l, "a", 1)
	limittest.Left(t, l, "b") // a peek counts as use
	limittest.Use(t, l, "d", 5)
	for key, want := range map[string]int64{"a": 4, "b": 5, "c": 10, "d": 5} {
		if got := limittest.Left(t, l, key); got != want {
			t.Errorf("%q has %d tokens left, want %d: c was used least recently", key, got, want)
		}
	}
	for range 3 {
		if res, err := l.AllowN(t.Context(), "b", 9); err != nil || res.Allowed {
			t.Fatalf("9 of b's 5: %v, %v", res.Allowed, err)
		}
	}
	limittest.Use(t, l, "e", 5)
	if got := limittest.Left(t, l, "b"); got != 5 {
		t.Errorf("a denied request counts as use: b has %d tokens left, want 5", got)
	}
	limittest.Use(t, l, "e", 1)
	limittest.Use(t, l, "d", 1)
	if _, err := core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: "b"}, core.Charge{Limiter: l, Key: "e"}); err != nil {
		t.Fatal(err)
	}
	limittest.Use(t, l, "f", 5)
	if got := limittest.Left(t, l, "b"); got != 4 {
		t.Errorf("a joint decision counts as use: b has %d tokens left, want 4", got)
	}
}

func TestFullBucketsAreDroppedBeforeAnyOther(t *testing.T) {
	clock := limittest.NewClock()
	store := core.NewMemoryStore(core.WithMaxKeys(3), core.WithClock(clock.Now))
	slow, fast := limittest.Limiter(t, store, "slow", core.PerDay(10)), limittest.Limiter(t, store, "fast", core.PerSecond(10))
	limittest.Use(t, slow, "old", 5)
	limittest.Use(t, slow, "older", 5)
	limittest.Use(t, fast, "new", 5)
	clock.Move(time.Second) // "new" is full, though it was used last
	limittest.Use(t, slow, "newest", 5)
	for key, want := range map[string]int64{"old": 5, "older": 5, "newest": 5} {
		if got := limittest.Left(t, slow, key); got != want {
			t.Errorf("%q has %d tokens left, want %d: a full bucket is dropped before others", key, got, want)
		}
	}
}

func TestBucketFullAfterARefundIsDroppedFirst(t *testing.T) {
	store := core.NewMemoryStore(core.WithMaxKeys(2), core.WithClock(limittest.NewClock().Now))
	l := limittest.Limiter(t, store, "api", core.PerDay(10))
	limittest.Use(t, l, "a", 5)
	limittest.Use(t, l, "b", 5)
	if err := l.Refund(t.Context(), "b", 5); err != nil {
		t.Fatal(err)
	}
	limittest.Use(t, l, "c", 5)
	if got := limittest.Left(t, l, "a"); got != 5 {
		t.Errorf("a has %d tokens left, want 5: b is full since its refund and is dropped first", got)
	}
}

// TestEvictionMatchesANaiveStore compares the store with a list in the order of
// use. Tokens come in whole seconds.
func TestEvictionMatchesANaiveStore(t *testing.T) {
	type entry struct {
		key    string
		tokens int64
	}
	const capacity = 6
	rapid.Check(t, func(rt *rapid.T) {
		bound := rapid.IntRange(1, 6).Draw(rt, "bound")
		clock := limittest.NewClock()
		store := core.NewMemoryStore(core.WithMaxKeys(bound), core.WithClock(clock.Now))
		l := limittest.Limiter(t, store, "api", core.PerSecond(1).WithBurst(capacity))
		var list []entry // the most recently used last
		for range rapid.IntRange(1, 80).Draw(rt, "operations") {
			seconds := rapid.SampledFrom([]int64{0, 0, 0, 1, 3}).Draw(rt, "seconds")
			clock.Move(time.Duration(seconds) * time.Second)
			for i := range list {
				list[i].tokens = min(capacity, list[i].tokens+seconds)
			}
			key := rapid.SampledFrom(strings.Split("a b c d e f g h i", " ")).Draw(rt, "key")
			cost := rapid.Int64Range(0, capacity).Draw(rt, "cost")

			mine := entry{key, capacity}
			known := -1
			for i := range list {
				if list[i].key == key {
					known, mine = i, list[i]
				}
			}
			allowed := mine.tokens >= cost
			if known >= 0 {
				list = append(list[:known], list[known+1:]...)
			} else if allowed && cost > 0 && len(list) == bound {
				drop := 0
				for i := range list {
					if list[i].tokens == capacity {
						drop = i
						break
					}
				}
				list = append(list[:drop], list[drop+1:]...)
			}
			if allowed {
				mine.tokens -= cost
			}
			if known >= 0 || allowed && cost > 0 {
				list = append(list, mine)
			}

			res := core.Must(l.AllowN(t.Context(), key, cost))
			if res.Allowed != allowed || res.Remaining != mine.tokens {
				rt.Fatalf("%q asked for %d: allowed %v, %d left; the naive store says %v, %d: %+v", key, cost, res.Allowed, res.Remaining, allowed, mine.tokens, list)
			}
			if n := store.Len(); n > bound {
				rt.Fatalf("a store of at most %d keys holds %d", bound, n)
			}
		}
	})
}

// fiber passes strings that are views of buffers, and it reuses these buffers.
func TestStoreCopiesItsKeys(t *testing.T) {
	for _, length := range []int{1, 8, 128, 129, 1000} {
		buffer := []byte(strings.Repeat("a", length))
		key := unsafe.String(&buffer[0], length)
		l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(10))
		limittest.Use(t, l, key, 4)
		for i := range buffer {
			buffer[i] = 'b'
		}
		limittest.Use(t, l, key, 1)
		for i := range buffer {
			buffer[i] = 'c'
		}
		if a, b, c := limittest.Left(t, l, strings.Repeat("a", length)), limittest.Left(t, l, strings.Repeat("b", length)), limittest.Left(t, l, key); a != 6 || b != 9 || c != 10 {
			t.Errorf("a key of %d bytes whose buffer was reused: a has %d left, b %d, c %d; want 6, 9, 10", length, a, b, c)
		}
	}
}

func TestKnownKeyCostsNoAllocation(t *testing.T) {
	for _, limits := range [][]core.Limit{
		{core.PerDay(1_000_000)},
		{core.PerDay(1_000_000), core.PerHour(1_000_000), core.PerMinute(1_000_000), core.PerSecond(1_000_000)},
	} {
		l := limittest.Limiter(t, core.NewMemoryStore(), "api", limits...)
		drained := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(1))
		limittest.Use(t, l, "user", 1)
		limittest.Use(t, drained, "user", 1)
		for name, do := range map[string]func(){
			"granted": func() { _, _ = l.Allow(context.Background(), "user") },
			"peek":    func() { _, _ = l.Peek(context.Background(), "user") },
			"denied":  func() { _, _ = drained.Allow(context.Background(), "user") },
		} {
			if n := testing.AllocsPerRun(200, do); n != 0 {
				t.Errorf("%d limits, %s: a decision on a known key costs %v allocations, want none", len(limits), name, n)
			}
		}
	}
}

// A client that invents keys must not make the store drop keys in use.
func TestFloodOfKeysDropsNoKeyInUse(t *testing.T) {
	for _, bound := range []int{4096, 20_000} {
		clock := limittest.NewClock()
		store := core.NewMemoryStore(core.WithMaxKeys(bound), core.WithClock(clock.Now))
		l := limittest.Limiter(t, store, "api", core.PerDay(100))
		limittest.Use(t, l, "honest", 60)
		for i := range 100_000 {
			limittest.Use(t, l, "flood-"+strconv.Itoa(i), 1)
			if i%20 == 0 {
				if got := limittest.Left(t, l, "honest"); got != 40 {
					t.Fatalf("bound %d: after %d invented keys the honest one has %d tokens left, want 40", bound, i+1, got)
				}
			}
		}
		if n := store.Len(); n > bound+64 {
			t.Errorf("a store of at most %d keys holds %d", bound, n)
		}
	}
}
