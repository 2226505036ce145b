package store

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// shard holds some of a Memory's keys under one lock. A decision on the fast
// path fetches three cache lines: the shard's first, a slot's and an entry's.
type shard struct {
	mu      sync.Mutex // guards everything below
	latest  int64      // the instant of the last decision, in µs since 1970
	uses    int64      // counts decisions
	slots   []slot     // a hash table of entries; its length is a power of 2, and at least an eighth is free
	entries []entry    // without gaps: if one is removed, the last one takes its index
	byUse   lazyHeap   // the least recently used entry first
	byFull  lazyHeap   // the entry that is full earliest first

	one *bucket.Bucket // space for what load returns
	_   [32]byte       // keeps two locks off one cache line
}

// slot refers to an entry. It is the slot that the lower bits of the entry's
// hash select, or the first free one behind that.
type slot struct {
	hash  uint32 // the lower half of the entry's hash
	entry int32  // its index, plus 1; 0: the slot is free
}

const leastSlots = 8 // at first

func newShard() *shard {
	return &shard{slots: make([]slot, leastSlots), one: &bucket.Bucket{Records: make([]bucket.Record, 0, 4)}}
}

// find returns the index of the entry of a key of c's policy, or -1. hash is
// theirs.
func (sh *shard) find(hash uint64, c *Class, key string) int32 {
	mask := len(sh.slots) - 1
	for at := int(uint32(hash)) & mask; ; at = (at + 1) & mask {
		switch s := sh.slots[at]; {
		case s.entry == 0:
			return -1
		case s.hash == uint32(hash) && sh.entries[s.entry-1].is(c, key):
			return s.entry - 1
		}
	}
}

func (sh *shard) slotOf(i int32) int {
	mask := len(sh.slots) - 1
	at := int(uint32(sh.entries[i].hash())) & mask
	for sh.slots[at].entry != i+1 {
		at = (at + 1) & mask
	}
	return at
}

// load returns the bucket of entry i; i below 0: of a key without one. It is
// valid until the next call.
func (sh *shard) load(i int32) *bucket.Bucket {
	b := sh.one
	if b.Records = b.Records[:0]; i < 0 {
		b.Expires, b.Holds = 0, nil
		return b
	}
	e := &sh.entries[i]
	b.Expires, b.Holds = e.rank[full], e.class.holds
	if e.class.records != nil {
		b.Records = append(b.Records, e.class.records...)
		return b
	}
	b.Records = b.Records[:1]
	// Set each field by itself: a processor has to wait when it copies words that
	// were just written.
	r, rate := &b.Records[0], e.class.rate
	r.Tag, r.Unit, r.Capacity = rate.Tag, rate.Unit, rate.Capacity
	r.Used, r.At, r.Cut, r.Held = e.used, e.at, 0, 0
	return b
}

// touch notes that entry i, if there is one, is used now.
func (sh *shard) touch(i int32) {
	if i >= 0 {
		sh.uses++
		sh.entries[i].rank[use] = sh.uses
	}
}

func (sh *shard) setFull(i int32, at int64) {
	before := sh.entries[i].rank[full]
	if sh.entries[i].rank[full] = at; at < before {
		sh.byFull.lower(i, at)
	}
}

// victim returns the index of the entry to drop for a new one: that of a full
// bucket, or else the least recently used. It returns -1 if the shard is empty,
// so a store can exceed its bound by one key for each shard that was empty.
func (sh *shard) victim(now int64) int32 {
	if i := sh.byFull.first(sh.entries, full); i >= 0 && sh.entries[i].rank[full] <= now {
		return i
	}
	return sh.leastUsed()
}

func (sh *shard) leastUsed() int32 { return sh.byUse.first(sh.entries, use) }

// add adds e, whose key has this hash.
func (sh *shard) add(e entry, hash uint64) {
	if len(sh.entries) == cap(sh.entries) {
		sh.fit()
	}
	sh.entries = append(sh.entries, e)
	sh.byUse.add(e.rank[use])
	sh.byFull.add(e.rank[full])
	if len(sh.entries) > len(sh.slots)/8*7 {
		sh.rehash(2 * len(sh.slots))
	}
	sh.occupy(slot{uint32(hash), int32(len(sh.entries))})
}

func (sh *shard) rehash(n int) {
	before := sh.slots
	sh.slots = make([]slot, n)
	for _, s := range before {
		if s.entry != 0 {
			sh.occupy(s)
		}
	}
}

func (sh *shard) occupy(s slot) {
	mask := len(sh.slots) - 1
	at := int(s.hash) & mask
	for sh.slots[at].entry != 0 {
		at = (at + 1) & mask
	}
	sh.slots[at] = s
}

// remove removes entry i. The last entry takes its index.
func (sh *shard) remove(i int32) {
	sh.free(sh.slotOf(i))
	last := int32(len(sh.entries) - 1)
	if i < last {
		sh.slots[sh.slotOf(last)].entry = i + 1
		sh.entries[i] = sh.entries[last]
	}
	sh.entries[last] = entry{}
	sh.entries = sh.entries[:last]
	sh.byUse.remove(i)
	sh.byFull.remove(i)
	if len(sh.slots) > leastSlots && len(sh.entries) < len(sh.slots)/4 {
		sh.rehash(len(sh.slots) / 2)
		sh.fit()
	}
}

// free empties the slot at an index. Slots behind it move up where find would
// not reach them over the gap.
func (sh *shard) free(at int) {
	mask := len(sh.slots) - 1
	for next := (at + 1) & mask; sh.slots[next].entry != 0; next = (next + 1) & mask {
		if home := int(sh.slots[next].hash); (next-home)&mask >= (next-at)&mask {
			sh.slots[at] = sh.slots[next]
			at = next
		}
	}
	sh.slots[at] = slot{}
}

// fit reallocates the entries with capacity for an eighth more: append would
// leave a fifth unused.
func (sh *shard) fit() {
	capacity := len(sh.entries) + len(sh.entries)/8 + 4
	sh.entries = moved(sh.entries, capacity)
	sh.byUse.fit(capacity)
	sh.byFull.fit(capacity)
}

// entry is what a Memory holds of one key. With many keys, a decision spends
// most of its time on fetching memory. So an entry is one cache line, of 64
// bytes, and what all keys of a policy have in common is in their class.
type entry struct {
	class  *Class
	used   int64    // Used of the only record, of which nothing is held or cut
	at     int64    // At of the only record
	rank   [2]int64 // [use]: the number of the decision that used it last; [full]: when every limit is full at the latest, in µs since 1970
	length uint8    // of the key
	key    [23]byte // the key, if it is no longer than this, as IPv4 addresses are; otherwise class has it
}

// The two orders of a shard's entries: by use, and by when they are full. They
// are indices of rank.
const (
	use  = 0
	full = 1
)

// newEntry returns an entry without records for a key of c's policy. It copies
// the key: see [Request.Key].
func newEntry(c *Class, key string) (e entry) {
	e.class, e.length = c, uint8(len(key)) // at most 128
	if copy(e.key[:], key) < len(key) {
		own := *c
		own.key = strings.Clone(key)
		e.class = &own
	}
	return e
}

func (e *entry) is(c *Class, key string) bool {
	switch {
	case int(e.length) != len(key) || e.class != c && e.class.policy != c.policy:
		return false
	case len(key) > len(e.key):
		return e.class.key == key
	}
	return string(e.key[:len(key)]) == key
}

func (e *entry) hash() uint64 {
	if int(e.length) > len(e.key) {
		return e.class.hashOf(e.class.key)
	}
	return e.class.hash ^ maphash.Bytes(keySeed, e.key[:e.length])
}

// put stores b, which a request on keys of class c wrote. e gets the class c, or
// one of its own if c does not have everything but the numbers of the only
// record.
func (e *entry) put(b *bucket.Bucket, c *Class) {
	if r := &b.Records[0]; len(b.Records) == 1 && len(b.Holds) == 0 && r.Held == 0 && r.Cut == 0 {
		e.used, e.at = r.Used, r.At
		is := func(rate *bucket.Rate) bool {
			return rate != nil && rate.Tag == r.Tag && rate.Unit == r.Unit && rate.Capacity == r.Capacity
		}
		switch {
		case e.class.records == nil && is(e.class.rate):
			return
		case e.class.key == "" && c.records == nil && is(c.rate):
			e.class = c
			return
		case is(c.rate):
			e.class = &Class{policy: c.policy, hash: c.hash, rate: c.rate, key: e.class.key}
			return
		}
	}
	if e.class.records == nil {
		e.class = &Class{policy: c.policy, hash: c.hash, key: e.class.key}
	}
	e.class.holds = b.Holds
	e.class.records = append(e.class.records[:0], b.Records...)
}

// lazyHeap is a binary heap of a shard's entries, to find the one of the lowest
// rank. Nearly all decisions raise an entry's rank, and don't touch the heap:
// it orders entries by an earlier rank, their place, and first corrects the
// places that it meets. A decision that lowers a rank, as a refund may, must
// call lower. Measured with 10,000 entries: 11 ns a use, container/heap 520 ns.
// A list in the order of use takes 14 ns, but can't order entries by when they
// are full.
//
// Example: the ranks of entries A, B and C are 1, 2 and 3 when they are added,
// and A is used again: its rank becomes 4, its place stays 1. first finds A on
// top, sets its place to 4, and moves it down. Then B is on top with place 2,
// its rank, and is returned.
type lazyHeap struct {
	items []int32 // the heap: indexes of entries in the shard
	place []int64 // by an entry's index: its rank when it was last placed; at most its rank now
	index []int32 // by an entry's index: its index in items
}

// add adds a shard's newest entry.
func (h *lazyHeap) add(rank int64) {
	last := len(h.items)
	h.items = append(h.items, int32(last))
	h.place = append(h.place, rank)
	h.index = append(h.index, int32(last))
	h.up(last)
}

// lower moves entry i up to its rank, if that has become lower than its place.
func (h *lazyHeap) lower(i int32, rank int64) {
	if rank < h.place[i] {
		h.place[i] = rank
		h.up(int(h.index[i]))
	}
}

// first returns the index of the entry of the lowest rank, or -1 if there is
// none. order is h's own: use or full.
func (h *lazyHeap) first(entries []entry, order int) int32 {
	// Places are at most ranks. So once the top's place is its rank, no entry
	// has a lower rank.
	for len(h.items) > 0 {
		top := h.items[0]
		rank := entries[top].rank[order]
		if h.place[top] == rank {
			return top
		}
		h.place[top] = rank
		h.down(0)
	}
	return -1
}

// remove removes entry i. The shard's last entry takes its index.
func (h *lazyHeap) remove(i int32) {
	last := len(h.items) - 1
	if at := int(h.index[i]); at < last {
		h.swap(at, last)
		h.items = h.items[:last]
		h.down(at)
		h.up(at)
	}
	h.items = h.items[:last]
	if int(i) < last {
		h.place[i], h.index[i] = h.place[last], h.index[last]
		h.items[h.index[i]] = i
	}
	h.place, h.index = h.place[:last], h.index[:last]
}

func (h *lazyHeap) fit(n int) {
	h.items, h.place, h.index = moved(h.items, n), moved(h.place, n), moved(h.index, n)
}

func moved[T any](list []T, n int) []T { return append(make([]T, 0, n), list...) }

func (h *lazyHeap) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if h.at(parent) <= h.at(at) {
			return
		}
		h.swap(at, parent)
		at = parent
	}
}

func (h *lazyHeap) down(at int) {
	for {
		least := 2*at + 1
		if least >= len(h.items) {
			return
		}
		if right := least + 1; right < len(h.items) && h.at(right) < h.at(least) {
			least = right
		}
		if h.at(at) <= h.at(least) {
			return
		}
		h.swap(at, least)
		at = least
	}
}

func (h *lazyHeap) at(index int) int64 { return h.place[h.items[index]] }

func (h *lazyHeap) swap(a, b int) {
	h.items[a], h.items[b] = h.items[b], h.items[a]
	h.index[h.items[a]], h.index[h.items[b]] = int32(a), int32(b)
}
