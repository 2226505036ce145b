package core

import (
	"context"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"
)

// defaultMaxKeys bounds a MemoryStore that was given no bound.
const defaultMaxKeys = 1_000_000

// MemoryStore keeps buckets in this process: for services that run as one replica, for tests, and
// for what each replica limits on its own. It starts no goroutine and needs no closing. A decision
// on up to 4 limits costs no allocation unless it meets a new key.
//
// It holds a bounded number of keys. When a new key needs room, full buckets are dropped first:
// nobody can tell a full bucket from one that was never used, save that a Stepped one counts its
// intervals anew. When there are none, the least recently used bucket is dropped, which forgives
// what was taken from it.
type MemoryStore struct {
	clock   func() time.Time
	maxKeys int
	errs    []error

	seed   maphash.Seed
	keys   atomic.Int64 // in all shards
	shards []shard
}

// MemoryOption is an option of [NewMemoryStore].
type MemoryOption interface{ memory(*MemoryStore) }

type memoryOption func(*MemoryStore)

func (o memoryOption) memory(s *MemoryStore) { o(s) }

// WithMaxKeys bounds how many keys a MemoryStore holds: at least 1, by default 1,000,000.
func WithMaxKeys(n int) MemoryOption {
	return memoryOption(func(s *MemoryStore) {
		if n < 1 {
			s.errs = append(s.errs, &ConfigError{"WithMaxKeys", n, "must be at least 1"})
			return
		}
		s.maxKeys = n
	})
}

// ClockOption is an option of both stores.
type ClockOption struct{ now func() time.Time }

// WithClock makes a store take the time from now instead of the system's clock (MemoryStore) or the
// Redis server's (RedisStore): for tests. A RedisStore's clock must stay between 1970 and 2112.
func WithClock(now func() time.Time) ClockOption { return ClockOption{now} }

func (o ClockOption) memory(s *MemoryStore) {
	if o.now == nil {
		s.errs = append(s.errs, &ConfigError{"WithClock", nil, "must be a function"})
		return
	}
	s.clock = o.now
}

// NewMemoryStore returns an empty store. Mistakes in its options are reported by [NewLimiter].
func NewMemoryStore(options ...MemoryOption) *MemoryStore {
	s := &MemoryStore{clock: time.Now, maxKeys: defaultMaxKeys, seed: maphash.MakeSeed()}
	for _, o := range options {
		if o != nil {
			o.memory(s)
		}
	}
	// A small store is one shard: its order of eviction is exact. A large one is split, so that
	// goroutines rarely meet, and each shard evicts its own least recently used key.
	shards := 1
	if s.maxKeys > maxExact {
		shards = 64
	}
	s.shards = make([]shard, shards)
	return s
}

// maxExact is the largest bound at which the least recently used key is exactly that.
const maxExact = 4096

func (s *MemoryStore) mistakes() []error { return s.errs }

// Do answers r. It never blocks on anything but its shard's lock, so it asks ctx nothing.
func (s *MemoryStore) Do(_ context.Context, r Request) (Answer, error) {
	sh := s.shard(r.key)
	now := s.clock().UnixMicro()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if now < sh.latest {
		// Another came between, with a later instant. To go by the older one would be a clock that
		// stepped back; if it did, it will say so again.
		now = s.clock().UnixMicro()
	}
	sh.latest = now

	e := sh.entries[entryKey{r.policy, r.key}]
	var stored, others []bucket
	if e != nil {
		sh.uses++
		e.rank[use] = sh.uses
		stored, others = r.plan.arrange(e.buckets)
	}
	a, write := r.decide(stored, &leased{}, now) // nothing is on lease where all is in this process
	if !write {
		return a, nil
	}
	fullAt := now + r.untilFull(&a)
	if e == nil {
		e = s.insert(sh, &r, now, fullAt)
	} else {
		if len(others) > 0 {
			fullAt = max(fullAt, e.rank[full])
		}
		if e.rank[full] = fullAt; fullAt < e.place[full] {
			sh.byFull.lowered(full, e)
		}
	}
	e.stepped = r.plan.stepped
	if n := len(r.plan.rates) + len(others); len(e.buckets) != n || len(others) > 0 {
		e.buckets = append(make([]bucket, len(r.plan.rates), n), others...)
	}
	for i := range r.plan.rates {
		e.buckets[i] = r.plan.rates[i].bucket(*a.levels.at(i))
	}
	return a, nil
}

// Reset forgets the bucket of a policy and key. It returns no error.
func (s *MemoryStore) Reset(_ context.Context, policy, key string) error {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[entryKey{policy, key}]; e != nil {
		s.drop(sh, e)
	}
	return nil
}

// Len returns how many keys the store holds: at most its bound, give or take the goroutines that
// insert at this moment.
func (s *MemoryStore) Len() int { return int(s.keys.Load()) }

func (s *MemoryStore) shard(key string) *shard {
	if len(s.shards) == 1 {
		return &s.shards[0]
	}
	return &s.shards[maphash.String(s.seed, key)%uint64(len(s.shards))]
}

// idle is how long, in µs, a bucket stays after it is full: keys that are in use and fill fast would
// else be made anew all the time.
const idle = 10_000_000

// insert makes room if need be and adds an entry for r. sh.mu is held.
func (s *MemoryStore) insert(sh *shard, r *Request, now, fullAt int64) *entry {
	// Two idle keys go for each new one, so that a spike of keys is forgotten as traffic goes on.
	// Not Stepped ones: they would count their intervals anew while there is room to keep them.
	for range 2 {
		if e := sh.byUse.first(use); e != nil && e.rank[full]+idle <= now && !e.stepped {
			s.drop(sh, e)
		}
	}
	if s.keys.Load() >= int64(s.maxKeys) {
		if e := sh.victim(now); e != nil {
			s.drop(sh, e)
		}
	}
	if sh.entries == nil {
		sh.entries = make(map[entryKey]*entry)
	}
	sh.uses++
	// The key may be a view of a buffer that its owner reuses.
	e := &entry{key: entryKey{r.policy, strings.Clone(r.key)}, rank: [2]int64{use: sh.uses, full: fullAt}}
	if len(r.plan.rates) == 1 {
		e.buckets = e.one[:]
	}
	sh.entries[e.key] = e
	sh.add(e)
	s.keys.Add(1)
	return e
}

// drop forgets e. sh.mu is held.
func (s *MemoryStore) drop(sh *shard, e *entry) {
	delete(sh.entries, e.key)
	sh.remove(e)
	s.keys.Add(-1)
}
