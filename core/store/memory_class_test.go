package store_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Keys of a policy share what they have in common, and get a class of their own
// only for what they don't.
func TestEntriesShareTheirClass(t *testing.T) {
	memory := store.NewMemory(core.WithMaxKeys(10), core.WithClock(func() time.Time { return time.Unix(1e9, 0) }))
	one := core.Must(core.NewLimiter(memory, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}}))
	tier := core.Must(one.WithLimits(core.PerDay(20)))
	use := func(l *core.Limiter, key string) *store.Class {
		if res, err := l.Allow(t.Context(), key); err != nil || !res.Allowed {
			t.Fatalf("%v, %v", res.Allowed, err)
		}
		return memory.ClassOf("api", key)
	}
	shared := use(one, "a")
	if use(one, "b") != shared {
		t.Error("keys with one limit have classes of their own")
	}
	if c := use(one, "a key that is too long for an entry"); c == shared || !c.KeyApart() {
		t.Error("a long key is not in its entry's class")
	}
	if c := use(tier, "a"); c == shared || c.SameRate(shared) {
		t.Error("a key that another definition of its limit wrote last has the class of the first")
	}
	if err := one.Reset(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if use(one, "a") != shared {
		t.Error("a key that begins anew has a class of its own")
	}
	// What is held is not in an entry.
	slots := core.Must(core.NewLimiter(memory, core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(2)}}))
	var classes [2]*store.Class
	for i, key := range []string{"a", "b"} {
		res, err := slots.Allow(t.Context(), key)
		if err != nil || !res.Allowed {
			t.Fatalf("%v, %v", res.Allowed, err)
		}
		if holding := memory.ClassOf("slots", key); holding == classes[0] {
			t.Error("two keys with slots in use share a class")
		}
		if err := res.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		classes[i] = memory.ClassOf("slots", key)
	}
	if classes[0] != classes[1] {
		t.Error("keys have classes of their own after their slots were released")
	}
}

// A store of many keys must stay small: one entry is 64 bytes.
func TestMemoryOfManyKeys(t *testing.T) {
	const keys, most = 100_000, 130
	names := make([]string, keys)
	for i := range names {
		names[i] = "user:" + strconv.Itoa(i)
	}
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	l := core.Must(core.NewLimiter(store.NewMemory(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(10)}}))
	before := live()
	for _, key := range names {
		if _, err := l.Allow(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if perKey := float64(live()-before) / keys; perKey > most {
		t.Errorf("a key takes %.0f bytes, want at most %d", perKey, most)
	}
	runtime.KeepAlive(l)
	runtime.KeepAlive(names)
}
