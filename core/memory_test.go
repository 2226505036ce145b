package core_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

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

func TestOnlyKeysThatTookSomethingAreStored(t *testing.T) {
	store := core.NewMemoryStore()
	l := limittest.Limiter(t, store, "api", core.PerDay(10), core.PerHour(10))
	core.Must(l.Peek(t.Context(), "k"))
	core.Must(l.AllowN(t.Context(), "k", 11))
	require.NoError(t, l.Refund(t.Context(), "k", 1))
	assert.Zero(t, store.Len(), "a peek, a denial and a refund of a new key store nothing")
	allow(t, l, 1)
	assert.Equal(t, 1, store.Len(), "a key counts once, whatever its limits")
}

// entry is what a naive store, a list in the order of use, knows of a key.
type entry struct {
	key    string
	tokens int64
}

// naive is a list of at most bound entries, the most recently used last.
type naive struct {
	bound    int
	capacity int64
	list     []entry
}

// of returns the tokens of a key, and whether it is in the list.
func (n *naive) of(key string) (tokens int64, known bool) {
	for _, e := range n.list {
		if e.key == key {
			return e.tokens, true
		}
	}
	return n.capacity, false
}

// use makes a key the most recently used. One that is new drops a full one, or
// else the one that was not used for the longest time.
func (n *naive) use(key string, tokens int64) {
	_, known := n.of(key)
	n.list = slices.DeleteFunc(n.list, func(e entry) bool { return e.key == key })
	if !known && len(n.list) == n.bound {
		drop := max(0, slices.IndexFunc(n.list, func(e entry) bool { return e.tokens == n.capacity }))
		n.list = slices.Delete(n.list, drop, drop+1)
	}
	n.list = append(n.list, entry{key, tokens})
}

// set sets what a key has. Only a new one is used by that.
func (n *naive) set(key string, tokens int64) {
	if i := slices.IndexFunc(n.list, func(e entry) bool { return e.key == key }); i >= 0 {
		n.list[i].tokens = tokens
	} else {
		n.use(key, tokens)
	}
}

// Tokens come in whole seconds.
func TestEvictionMatchesANaiveStore(t *testing.T) {
	const capacity = 6
	ctx := t.Context()
	keys := rapid.SampledFrom(strings.Split("a b c d e f g h i", " "))
	rapid.Check(t, func(rt *rapid.T) {
		want := &naive{bound: rapid.IntRange(1, 6).Draw(rt, "bound"), capacity: capacity}
		clock := limittest.NewClock()
		store := core.NewMemoryStore(core.WithMaxKeys(want.bound), core.WithClock(clock.Now))
		l := limittest.Limiter(t, store, "api", core.PerSecond(1).WithBurst(capacity))
		for range rapid.IntRange(1, 80).Draw(rt, "operations") {
			seconds := rapid.SampledFrom([]int64{0, 0, 0, 1, 3}).Draw(rt, "seconds")
			clock.Move(time.Duration(seconds) * time.Second)
			for i := range want.list {
				want.list[i].tokens = min(capacity, want.list[i].tokens+seconds)
			}
			key, cost := keys.Draw(rt, "key"), rapid.Int64Range(0, capacity).Draw(rt, "cost")
			tokens, known := want.of(key)
			switch operation := rapid.SampledFrom([]string{"take", "take", "refund", "refund", "reset", "together"}).Draw(rt, "operation"); operation {
			case "refund":
				require.NoError(rt, l.Refund(ctx, key, cost))
				if known {
					want.use(key, min(capacity, tokens+cost))
				}
			case "reset":
				require.NoError(rt, l.Reset(ctx, key))
				want.list = slices.DeleteFunc(want.list, func(e entry) bool { return e.key == key })
			default:
				charges := []core.Charge{{Limiter: l, Key: key, Units: core.Units{core.Requests: cost}}}
				other := keys.Draw(rt, "another key")
				if left, second := want.of(other); operation == "together" && second && other < key && left > 0 { // which takes none
					charges = append(charges, core.Charge{Limiter: l, Key: other, Units: core.Units{core.Requests: 0}})
					want.use(other, left) // first, as keys are decided in their order
				}
				if known {
					want.use(key, tokens)
				}
				res := core.Must(core.AllowTogether(ctx, charges...))
				require.Equal(rt, tokens >= cost, res.Allowed, "%q asks for %d: %+v", key, cost, want.list)
				if tokens >= cost {
					tokens -= cost
				}
				require.Equal(rt, tokens, res.Parts[0].Remaining, "%q asks for %d: %+v", key, cost, want.list)
				if res.Allowed && cost > 0 {
					want.set(key, tokens)
				}
			}
			require.LessOrEqual(rt, store.Len(), want.bound, "a store keeps its bound")
			inUse := slices.DeleteFunc(slices.Clone(want.list), func(e entry) bool { return e.tokens == capacity })
			require.GreaterOrEqual(rt, store.Len(), len(inUse), "it drops no key without need: %+v", want.list)
		}
	})
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
