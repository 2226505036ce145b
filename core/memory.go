package core

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"
	"unique"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
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
	config  StoreConfig
	system  clock
	maxKeys int

	seed   maphash.Seed
	keys   atomic.Int64 // in all shards
	shards []shard
}

// MemoryOption is an option of [NewMemoryStore].
type MemoryOption interface{ memory(*MemoryStore) }

type memoryOption func(*MemoryStore)

func (o memoryOption) memory(s *MemoryStore) { o(s) }

// memory makes WithClock a MemoryOption.
func (o ClockOption) memory(s *MemoryStore) { o.ConfigureStore(&s.config) }

// WithMaxKeys bounds how many keys a MemoryStore holds: at least 1, by default 1,000,000.
func WithMaxKeys(n int) MemoryOption {
	return memoryOption(func(s *MemoryStore) {
		if n < 1 {
			s.config.Mistake("WithMaxKeys", n, "must be at least 1")
			return
		}
		s.maxKeys = n
	})
}

// NewMemoryStore returns an empty store. Mistakes in its options are reported by [NewLimiter].
func NewMemoryStore(options ...MemoryOption) *MemoryStore {
	s := &MemoryStore{maxKeys: defaultMaxKeys, seed: maphash.MakeSeed()}
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

// Config is how the store was configured.
func (s *MemoryStore) Config() *StoreConfig { return &s.config }

// Do answers r. It never blocks on anything but its shard's lock, so it asks ctx nothing.
func (s *MemoryStore) Do(_ context.Context, r Request) (a Answer, _ error) {
	err := s.decide(&r, &a)
	return a, err
}

// decide answers r in a. The error is that of a key that is in use under too many limits.
func (s *MemoryStore) decide(r *Request, a *Answer) error {
	hash := s.hash(r.policy.Value(), r.key)
	sh := s.shard(hash)
	now := s.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if now < sh.latest {
		// Another came between, with a later instant. To go by the older one would be a clock that
		// stepped back; if it did, it will say so again.
		now = s.read()
	}
	sh.latest = now

	e := sh.find(hash, r.policy, r.key)
	var records []bucket.Record // none: the key was not used yet
	if e != nil {
		sh.uses++
		e.rank[use] = sh.uses
		records = e.records()
		if until, write, ok := r.Usual(&a.Answer, records, now); ok {
			if write {
				e.stepped = r.Plan.Stepped
				sh.fullAt(e, until)
			}
			return nil
		}
	}
	next, until, err := r.Request.Decide(&a.Answer, records, now)
	switch {
	case err != nil:
		return r.stateError(err)
	case next == nil: // nothing changed
		return nil
	case e == nil:
		e = s.insert(sh, hash, r, now, until)
	default:
		sh.fullAt(e, until)
	}
	e.stepped = r.Plan.Stepped
	copy(e.resize(len(next)), next)
	return nil
}

// now is the instant of a decision, in µs since 1970.
func (s *MemoryStore) now() int64 {
	if s.config.Clock == nil {
		return s.system.now()
	}
	return s.config.Clock().UnixMicro()
}

// read is now by the clock itself, at its full price.
func (s *MemoryStore) read() int64 {
	if s.config.Clock == nil {
		return time.Now().UnixMicro()
	}
	return s.config.Clock().UnixMicro()
}

// Reset forgets the bucket of a policy and key. It returns no error.
func (s *MemoryStore) Reset(_ context.Context, policy, key string) error {
	hash := s.hash(policy, key)
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.find(hash, unique.Make(policy), key); e != nil {
		s.drop(sh, e)
	}
	return nil
}

// Len returns how many keys the store holds: at most its bound, give or take the goroutines that
// insert at this moment.
func (s *MemoryStore) Len() int { return int(s.keys.Load()) }

// hash is what the shard and the entry of a policy and key are found by.
func (s *MemoryStore) hash(policy, key string) uint64 {
	return bits.RotateLeft64(maphash.String(s.seed, policy), 1) ^ maphash.String(s.seed, key)
}

// hashOf is the hash of an entry.
func (s *MemoryStore) hashOf(e *entry) uint64 {
	policy := bits.RotateLeft64(maphash.String(s.seed, e.policy.Value()), 1)
	if int(e.length) > len(e.key) {
		return policy ^ maphash.String(s.seed, e.more.key)
	}
	return policy ^ maphash.Bytes(s.seed, e.key[:e.length])
}

// shard takes the upper bits of a hash: the map in the shard sees the others differ.
func (s *MemoryStore) shard(hash uint64) *shard {
	return &s.shards[(hash>>32)&uint64(len(s.shards)-1)] // their number is a power of 2
}

// idle is how long, in µs, a bucket stays after it is full: keys that are in use and fill fast would
// else be made anew all the time.
const idle = 10_000_000

// insert makes room if need be and adds an entry for r. sh.mu is held.
func (s *MemoryStore) insert(sh *shard, hash uint64, r *Request, now, fullAt int64) *entry {
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
	sh.uses++
	e := &entry{policy: r.policy, rank: [2]int64{use: sh.uses, full: fullAt}}
	e.setKey(r.key)
	sh.add(e, hash)
	s.keys.Add(1)
	return e
}

// drop forgets e. sh.mu is held.
func (s *MemoryStore) drop(sh *shard, e *entry) {
	sh.remove(e, s.hashOf(e))
	s.keys.Add(-1)
}
