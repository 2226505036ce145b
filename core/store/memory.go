package store

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

const defaultMaxKeys = 1_000_000

// Memory is the store behind core.MemoryStore, which says what it keeps. With a
// bound above 4,096 keys, it looks for the least recently used one among a 64th
// of the keys.
type Memory struct {
	config  Config
	system  clock
	maxKeys int

	keys   atomic.Int64 // how many, in all shards
	shards []*shard     // by hash: see shard
}

// NewMemory returns an empty store. core.NewLimiter reports mistakes in the
// options.
func NewMemory(options ...Option) *Memory {
	s := &Memory{}
	for _, o := range options {
		if o != nil {
			o.ConfigureStore(&s.config)
		}
	}
	s.maxKeys = cmp.Or(s.config.MaxKeys, defaultMaxKeys)
	// One shard drops the least recently used key of all. With many, goroutines
	// rarely wait for a lock.
	shards := 1
	if s.maxKeys > maxExact {
		shards = 64
	}
	s.shards = make([]*shard, shards)
	for i := range s.shards {
		s.shards[i] = newShard()
	}
	return s
}

// maxExact is the largest bound of a store of one shard.
const maxExact = 4096

// Config returns the store's configuration.
func (s *Memory) Config() *Config { return &s.config }

// Do decides r. It ignores ctx, because it waits only for a lock. Its errors
// are those of Answer.
func (s *Memory) Do(_ context.Context, r Request) (a Answer, _ error) {
	err := s.Answer(&r, &a)
	return a, err
}

// Answer is Do without copies of r and the answer, which it writes to a. It
// returns [ErrClock].
func (s *Memory) Answer(r *Request, a *Answer) error {
	hash := r.Hash()
	sh := s.shard(hash)
	now, err := s.now()
	if err != nil {
		return err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if now < sh.latest {
		// Another goroutine took the lock first, with a later instant. Read the
		// clock again, and then without the cache. If it is still older, it has
		// stepped back.
		if now, err = s.now(); err == nil && now < sh.latest {
			now, err = s.read()
		}
		if err != nil {
			return err
		}
	}
	sh.latest = now
	return s.decideAt(sh, hash, r, a, now)
}

// decideAt is Answer at the instant now. sh and hash are those of r's key.
// sh.mu is held.
func (s *Memory) decideAt(sh *shard, hash uint64, r *Request, a *Answer, now int64) error {
	i := sh.find(hash, r.class, r.key)
	sh.touch(i)
	b := sh.load(i)
	if bucket.Decide(now, b, &r.Request, a) {
		s.put(sh, hash, r, i, b, now)
	}
	return nil
}

// put stores the bucket of r's key, which is entry i, or new. sh.mu is held.
func (s *Memory) put(sh *shard, hash uint64, r *Request, i int32, b *bucket.Bucket, now int64) {
	if i >= 0 {
		sh.entries[i].put(b, r.class)
		sh.setFull(i, b.Full)
		return
	}
	e := newEntry(r.class, r.key)
	e.put(b, r.class)
	e.rank[full] = b.Full
	s.insert(sh, hash, e, now)
}

// now returns the instant of a decision, in µs since 1970, or [ErrClock].
func (s *Memory) now() (int64, error) {
	if s.config.Clock == nil {
		if now := s.system.now(); now >= 0 && now <= bucket.Latest {
			return now, nil
		}
	}
	return s.read()
}

// read is now without the cache of [clock]: slower, but right as soon as the
// wall clock is set.
func (s *Memory) read() (int64, error) {
	if s.config.Clock == nil {
		return Instant(time.Now())
	}
	return Instant(s.config.Clock())
}

// Reset forgets the bucket of a policy and key, so that it is full. The error
// is always nil.
func (s *Memory) Reset(_ context.Context, policy, key string) error {
	c := NewClass(policy, nil)
	hash := c.hashOf(key)
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i := sh.find(hash, c, key); i >= 0 {
		s.drop(sh, i)
	}
	return nil
}

// State returns what the store keeps of the bucket of a policy and key: see
// [StateReader]. The error is [ErrClock].
func (s *Memory) State(_ context.Context, policy, key string) (state State, _ error) {
	c := NewClass(policy, nil)
	hash := c.hashOf(key)
	sh := s.shard(hash)
	now, err := s.now()
	if err != nil {
		return state, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	state.Now = time.UnixMicro(max(now, sh.latest))
	if i := sh.find(hash, c, key); i >= 0 {
		state.Bytes = sh.load(i).Append(nil)
	}
	return state, nil
}

// Len returns how many keys the store holds. It can exceed the bound by the
// number of goroutines that are adding a key, and by up to 63 if the bound is
// above 4,096.
func (s *Memory) Len() int { return int(s.keys.Load()) }

// shard returns the shard of a hash. It selects by the upper half of the hash,
// because a shard's table uses the lower half.
func (s *Memory) shard(hash uint64) *shard {
	return s.shards[(hash>>32)&uint64(len(s.shards)-1)] // their number is a power of 2
}

// idle is for how long, in µs, insert leaves a full bucket in the store, so
// that keys in steady use are not dropped and inserted again and again.
const idle = 10_000_000

// insert adds e, whose key has this hash, and drops other entries to make room.
// sh.mu is held.
func (s *Memory) insert(sh *shard, hash uint64, e entry, now int64) {
	// For each new key drop up to two that were full for the time idle, so that
	// the store shrinks again after a spike of keys.
	for range 2 {
		if i := sh.leastUsed(); i >= 0 && sh.entries[i].rank[full]+idle <= now {
			s.drop(sh, i)
		}
	}
	if s.keys.Load() >= int64(s.maxKeys) {
		if i := sh.victim(now); i >= 0 {
			s.drop(sh, i)
		}
	}
	sh.uses++
	e.rank[use] = sh.uses
	sh.add(e, hash)
	s.keys.Add(1)
}

// drop removes entry i. sh.mu is held.
func (s *Memory) drop(sh *shard, i int32) {
	sh.remove(i)
	s.keys.Add(-1)
}

// DoTogether decides requests in one step. It holds the locks of all their
// shards.
func (s *Memory) DoTogether(_ context.Context, requests []Request) ([]Answer, error) {
	hashes := make([]uint64, len(requests))
	var shards []*shard
	for i := range requests {
		hashes[i] = requests[i].Hash()
		shards = append(shards, s.shard(hashes[i]))
	}
	index := func(sh *shard) int { return slices.Index(s.shards, sh) }
	slices.SortFunc(shards, func(a, b *shard) int { return cmp.Compare(index(a), index(b)) }) // every goroutine locks in this order, so none waits forever
	shards = slices.Compact(shards)
	for _, sh := range shards {
		sh.mu.Lock()
		defer sh.mu.Unlock()
	}
	now, err := s.now()
	for _, sh := range shards {
		if err == nil && now < sh.latest { // as in Answer
			now, err = s.read()
		}
	}
	if err != nil {
		return nil, err
	}
	for _, sh := range shards {
		sh.latest = now
	}
	// The buckets are copies, because two keys may be of one shard.
	buckets, asked, answers := make([]bucket.Bucket, len(requests)), make([]*bucket.Request, len(requests)), make([]Answer, len(requests))
	for i := range requests {
		r := &requests[i]
		sh := s.shard(hashes[i])
		entry := sh.find(hashes[i], r.class, r.key)
		sh.touch(entry)
		b := sh.load(entry)
		buckets[i] = bucket.Bucket{Expires: b.Expires, Records: slices.Clone(b.Records), Holds: slices.Clone(b.Holds)}
		asked[i] = &r.Request
	}
	changed := bucket.DecideJointly(now, buckets, asked, answers)
	for i := range requests {
		r := &requests[i]
		if changed[i] { // the index of its entry may have changed: look for it again
			sh := s.shard(hashes[i])
			s.put(sh, hashes[i], r, sh.find(hashes[i], r.class, r.key), &buckets[i], now)
		}
	}
	return answers, nil
}
