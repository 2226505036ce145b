package store

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"unsafe"
)

// model is a shard beside a plain map of what it must hold.
type model struct {
	shard *shard
	ranks map[name][2]int64
}

type name struct {
	class *Class
	key   string
}

func (m *model) add(n name, ranks [2]int64) {
	e := newEntry(n.class, n.key)
	e.rank = ranks
	m.shard.add(e, n.class.hashOf(n.key))
	m.ranks[n] = ranks
}

func (m *model) remove(n name) {
	m.shard.remove(m.shard.find(n.class.hashOf(n.key), n.class, n.key))
	delete(m.ranks, n)
}

// check checks that the shard holds what the map holds, and nothing else.
func (m *model) check(t *testing.T) {
	t.Helper()
	sh := m.shard
	for n, ranks := range m.ranks {
		i := sh.find(n.class.hashOf(n.key), n.class, n.key)
		if i < 0 || sh.entries[i].rank != ranks {
			t.Fatalf("key %q of policy %q is entry %d of %d, with other ranks than %v", n.key, n.class.policy.Value(), i, len(sh.entries), ranks)
		}
	}
	slots := 0
	for _, s := range sh.slots {
		if s.entry != 0 {
			slots++
		}
	}
	if len(sh.entries) != len(m.ranks) || slots != len(m.ranks) || len(sh.byUse.items) != len(m.ranks) || len(sh.byFull.items) != len(m.ranks) {
		t.Fatalf("%d keys take %d entries, %d slots and %d and %d items of the heaps", len(m.ranks), len(sh.entries), slots, len(sh.byUse.items), len(sh.byFull.items))
	}
	for order, i := range []int32{use: sh.leastUsed(), full: sh.byFull.first(sh.entries, full)} {
		least := slices.MinFunc(slices.Collect(maps.Values(m.ranks)), func(a, b [2]int64) int { return int(a[order] - b[order]) })
		if sh.entries[i].rank[order] != least[order] {
			t.Fatalf("order %d: the first entry has rank %d, want %d", order, sh.entries[i].rank[order], least[order])
		}
	}
}

func TestShardHoldsWhatWasAddedAndNotRemoved(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	long := "a key that is too long for an entry, "
	for range 20 {
		m := &model{newShard(), make(map[name][2]int64)}
		classes := []*Class{NewClass("a", nil), NewClass("b", nil)}
		most := 1 + random.IntN(300)
		for range 3000 {
			n := name{classes[random.IntN(2)], []string{"", long}[random.IntN(2)] + strconv.Itoa(random.IntN(most))}
			switch ranks, known := m.ranks[n]; {
			case !known:
				m.add(n, [2]int64{random.Int64N(1000), random.Int64N(1000)})
			case random.IntN(2) == 0:
				m.remove(n)
			default: // a use, and a bucket that is full later or, as after a refund, earlier
				i := m.shard.find(n.class.hashOf(n.key), n.class, n.key)
				ranks[use] += random.Int64N(100)
				ranks[full] += random.Int64N(200) - 100
				m.shard.entries[i].rank[use] = ranks[use]
				m.shard.setFull(i, ranks[full])
				m.ranks[n] = ranks
			}
			if len(m.ranks) > 0 && random.IntN(10) == 0 {
				m.check(t)
			}
		}
		for _, n := range slices.Collect(maps.Keys(m.ranks)) {
			if m.remove(n); len(m.ranks) > 0 {
				m.check(t)
			}
		}
		if len(m.shard.slots) > leastSlots || cap(m.shard.entries) > 2*leastSlots {
			t.Fatalf("an empty shard keeps %d slots and room for %d entries", len(m.shard.slots), cap(m.shard.entries))
		}
	}
}

// Two keys of the same hash must not share an entry, in whatever order they are
// added and removed. A slot has only half of the hash, so such keys are found
// soon.
func TestShardKeepsKeysOfTheSameHashApart(t *testing.T) {
	c := NewClass("api", nil)
	seen := make(map[uint32]string)
	for i, pairs := 0, 0; pairs < 3; i++ {
		key := strconv.Itoa(i)
		hash := uint32(c.hashOf(key))
		other, ok := seen[hash]
		if !ok {
			seen[hash] = key
			continue
		}
		pairs++
		for _, order := range [][]string{{key, other}, {other, key}} {
			m := &model{newShard(), make(map[name][2]int64)}
			m.add(name{c, key}, [2]int64{1, 1})
			if i := m.shard.find(c.hashOf(other), c, other); i >= 0 {
				t.Fatalf("%q is taken for %q", other, key)
			}
			m.add(name{c, other}, [2]int64{2, 2})
			m.check(t)
			m.remove(name{c, order[0]})
			m.check(t)
			m.remove(name{c, order[1]})
		}
	}
}

// With many keys a decision waits for memory, so it must fetch few cache lines,
// and no lock of other goroutines.
func TestEntriesAndShardsFillCacheLines(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("on 64-bit processors only")
	}
	if size := unsafe.Sizeof(entry{}); size != 64 {
		t.Errorf("an entry takes %d bytes, want 64", size)
	}
	if size := unsafe.Sizeof(shard{}); size%64 != 0 {
		t.Errorf("a shard takes %d bytes, so two locks can share a cache line", size)
	}
}
