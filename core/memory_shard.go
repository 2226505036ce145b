package core

import "sync"

// shard is a part of a MemoryStore's keys under one lock.
type shard struct {
	mu      sync.Mutex // guards everything below
	entries map[entryKey]*entry
	recent  recentList
	full    fullHeap
	_       [64]byte // keeps two locks off one cache line
}

type entryKey struct{ policy, key string }

// entry is the buckets of one key and its places in the shard's list and heap.
type entry struct {
	key          entryKey
	buckets      []bucket
	newer, older *entry // recentList
	fullAt       int64  // µs since 1970: every limit is full from then on
	heapAt       int64  // fullHeap: the place in it, at most fullAt
	heapIndex    int    // fullHeap
	stepped      bool   // when it counts its steps from would be lost with it
}

// victim is the entry to drop for a new one: a full bucket, else the least recently used. It is nil
// in an empty shard, so a split store may exceed its bound by as many keys as it has empty shards.
func (sh *shard) victim(now int64) *entry {
	if e := sh.full.first(now); e != nil {
		return e
	}
	return sh.recent.oldest
}

// recentList orders entries by their last use.
type recentList struct{ newest, oldest *entry }

func (l *recentList) add(e *entry) {
	e.newer, e.older = nil, l.newest
	if l.newest != nil {
		l.newest.newer = e
	} else {
		l.oldest = e
	}
	l.newest = e
}

func (l *recentList) remove(e *entry) {
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		l.newest = e.older
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		l.oldest = e.newer
	}
}

func (l *recentList) touch(e *entry) {
	if l.newest != e {
		l.remove(e)
		l.add(e)
	}
}

// fullHeap finds a full bucket. It is a binary heap by heapAt, which is at most fullAt: taking
// tokens only moves fullAt later, so the hot path leaves the heap alone, and first puts right what it
// finds out of place.
type fullHeap []*entry

func (h *fullHeap) add(e *entry) {
	e.heapAt, e.heapIndex = e.fullAt, len(*h)
	*h = append(*h, e)
	h.up(e.heapIndex)
}

// set notes a new fullAt of e.
func (h fullHeap) set(e *entry, fullAt int64) {
	e.fullAt = fullAt
	if fullAt < e.heapAt { // a refund, or a clock that stepped back
		e.heapAt = fullAt
		h.up(e.heapIndex)
	}
}

// first returns an entry that is full by now, or nil when there is none.
func (h fullHeap) first(now int64) *entry {
	for len(h) > 0 && h[0].heapAt <= now {
		if h[0].fullAt <= now {
			return h[0]
		}
		h[0].heapAt = h[0].fullAt
		h.down(0)
	}
	return nil
}

func (h *fullHeap) remove(e *entry) {
	i, last := e.heapIndex, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h fullHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].heapAt <= h[i].heapAt {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h fullHeap) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(h) {
			return
		}
		if right := least + 1; right < len(h) && h[right].heapAt < h[least].heapAt {
			least = right
		}
		if h[i].heapAt <= h[least].heapAt {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h fullHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}
