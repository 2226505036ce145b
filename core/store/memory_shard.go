package store

import (
	"sync"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// shard holds some of a Memory's keys under one lock. The usual decision fetches three cache lines: the first of the shard's four, a
// slot's and an entry's.
type shard struct {
	mu      sync.Mutex // guards everything below
	latest  int64      // the instant of the last decision, in µs since 1970
	uses    int64      // counts decisions
	slots   []slot     // a hash table of entries; its length is a power of 2, and at least an eighth is free
	entries []entry    // without gaps: if one is removed, the last one takes its index
	byUse   lazyHeap   // the least recently used entry first
	byFull  lazyHeap   // the entry that is full earliest first

	one *[1]bucket.Record // space for what records returns
	_   [32]byte          // keeps two locks off one cache line
}

// slot refers to an entry. It is the slot that the lower bits of the entry's hash select, or the first free one behind that.
type slot struct {
	hash  uint32 // the lower half of the entry's hash
	entry int32  // its index, plus 1; 0: the slot is free
}

// leastSlots is how many slots a shard has at first.
const leastSlots = 8

func newShard() *shard { return &shard{slots: make([]slot, leastSlots), one: new([1]bucket.Record)} }

// find returns the index of the entry of a key of c's policy, or -1. hash is theirs.
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

// slotOf returns the index of the slot of entry i.
func (sh *shard) slotOf(i int32) int {
	mask := len(sh.slots) - 1
	at := int(uint32(sh.entries[i].hash())) & mask
	for sh.slots[at].entry != i+1 {
		at = (at + 1) & mask
	}
	return at
}

// usual decides r on entry i by [bucket.Request.Usual], the fast path for plain takes. It reports whether that could decide r.
func (sh *shard) usual(i int32, r *bucket.Request, a *bucket.Answer, now int64) (ok bool) {
	e := &sh.entries[i]
	if e.class.records != nil {
		until, write, ok := r.Usual(a, e.class.records, now)
		if write {
			sh.setFull(i, until)
		}
		return ok
	}
	var one [1]bucket.Record
	e.read(&one[0])
	_, write, ok := r.Usual(a, one[:], now)
	if write {
		e.units, e.at = one[0].Units, one[0].At
		sh.setFull(i, one[0].Keep)
	}
	return ok
}

// records returns the records of entry i. They are valid until the next call.
func (sh *shard) records(i int32) []bucket.Record {
	e := &sh.entries[i]
	if e.class.records != nil {
		return e.class.records
	}
	e.read(&sh.one[0])
	return sh.one[:]
}

// setFull sets the instant at which every limit of entry i is full.
func (sh *shard) setFull(i int32, at int64) {
	before := sh.entries[i].rank[full]
	if sh.entries[i].rank[full] = at; at < before {
		sh.byFull.lower(i, at)
	}
}

// victim returns the index of the entry to drop for a new one: that of a full bucket, or else the least recently used. It returns -1
// if the shard is empty, so a store can exceed its bound by one key for each shard that was empty.
func (sh *shard) victim(now int64) int32 {
	if i := sh.byFull.first(sh.entries, full); i >= 0 && sh.entries[i].rank[full] <= now {
		return i
	}
	return sh.leastUsed()
}

// leastUsed returns the index of the least recently used entry, or -1 if there is none.
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

// rehash moves all slots to a table of length n.
func (sh *shard) rehash(n int) {
	before := sh.slots
	sh.slots = make([]slot, n)
	for _, s := range before {
		if s.entry != 0 {
			sh.occupy(s)
		}
	}
}

// occupy stores s in the first free slot for its hash.
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

// free empties the slot at an index. Slots behind it move up where find would not reach them over the gap.
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

// fit reallocates the entries with capacity for an eighth more. The growth of append would leave a fifth unused.
func (sh *shard) fit() {
	capacity := len(sh.entries) + len(sh.entries)/8 + 4
	sh.entries = moved(sh.entries, capacity)
	sh.byUse.fit(capacity)
	sh.byFull.fit(capacity)
}
