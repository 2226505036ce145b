// Package denycache repeats denials that still hold, without asking the store
// again. Stores of package redisstore have one. It works around any other store
// too:
//
//	store := denycache.New(memcachedStore, time.Second)
//
// See [docs/how-it-works.md].
//
// [docs/how-it-works.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/how-it-works.md
package denycache

import (
	"context"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/layer"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// below is embedded under a name that is not exported.
type below = layer.Layer

// Store is a [store.Store] around another one. If that said "retry in t", the
// bucket can't have the tokens before t, unless somebody gives tokens back or
// resets it. So until t, or until the horizon is over, the Store denies the
// same key and cost in this process, with the right RetryAfter, and with what
// was left when the store denied it. What is given back or reset through this
// Store ends that at once. Refunds and resets of other processes are seen when
// the horizon is over. A repeated denial costs no call, and no allocation for up
// to 4 limits. It has the Source core.FromDenyCache. Slots and estimates, which
// may come back at any time, are always asked for. The Store holds at most
// 65,536 denials, of each key that of the last cost.
type Store struct {
	below

	horizon time.Duration
	shards  [shards]shard
}

const (
	// maxDenials bounds the denials of a Store. A new one replaces any other.
	maxDenials = 1 << 16
	shards     = 16
)

// shard is a part of the keys, with a lock of its own.
type shard struct {
	mu       sync.Mutex         // guards all below; never held across I/O
	denials  map[uint64]*denial // by Request.Hash: of two buckets with the same hash, the last stays
	repeated int64              // how many denials were repeated
	// given counts the requests that have returned tokens. A denial that was
	// asked for before is not kept after that: it may not hold any more.
	given int64
	_     [32]byte // keeps two locks off one cache line
}

// denial is an answer that stays true for a while. It never changes.
type denial struct {
	request store.Request
	answer  store.Answer
	asked   int64 // when the request was sent, in ns since 1970
	until   int64 // when it no longer holds
}

// New returns a Store around next. The horizon is for how long it repeats a
// denial; 0 or less: never.
func New(next store.Store, horizon time.Duration) *Store {
	return &Store{below: layer.On(next), horizon: horizon}
}

// Do repeats a denial that still holds for r, or has next decide.
func (s *Store) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	switch {
	case r.Gives():
		defer s.given(&r)
		return s.Next.Do(ctx, r)
	case r.Action != bucket.Take || r.N <= 0 || r.Each != nil || r.Set.Holds:
		if a, err = s.Next.Do(ctx, r); a.Allowed && r.Moves() {
			s.drop(&r)
		}
		return a, err
	}
	asked, err := s.Config().Nanos()
	if err != nil {
		return a, err
	}
	repeated, given := s.repeat(&r, &a, asked)
	if repeated {
		return a, nil
	}
	a, err = s.Next.Do(ctx, r)
	switch {
	case err != nil:
	case a.Allowed:
		s.drop(&r)
	default:
		s.keep(&r, &a, given, asked)
	}
	return a, err
}

// DoTogether has next decide requests in one step.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	answers, err := s.below.DoTogether(ctx, requests)
	for i := range requests {
		s.drop(&requests[i])
	}
	return answers, err
}

// Reset has next forget a bucket, and drops its denial.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	r := store.NewRequest(policy, key, bucket.Request{})
	defer s.given(&r)
	return s.Next.Reset(ctx, policy, key)
}

// given drops the denial of a bucket to which tokens have come back.
func (s *Store) given(r *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.given++
	delete(sh.denials, r.Hash())
}

// drop drops the denial of a bucket that others have taken from: its delay has
// become longer.
func (s *Store) drop(r *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.denials, r.Hash())
}

// repeat sets a to a denial that still holds for r at now. given is for keep.
func (s *Store) repeat(r *store.Request, a *store.Answer, now int64) (ok bool, given int64) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	d := sh.denials[r.Hash()]
	if d == nil || d.request.Set != r.Set || d.request.N != r.N || !d.request.SameBucket(r) || now < d.asked || now >= d.until {
		return false, sh.given
	}
	sh.repeated++
	*a = d.answer
	a.Levels.Unshare()
	a.Age(r.Set, (now-d.asked)/1000)
	return true, sh.given
}

// keep remembers the denial a of r, which was asked for at an instant, unless
// tokens may have come back since repeat returned given.
func (s *Store) keep(r *store.Request, a *store.Answer, given, asked int64) {
	wait := int64(0) // in µs: until every limit has the tokens
	for i := range r.Set.Rates {
		wait = max(wait, a.RetryAfter(r.Set, i, r.Of(i)))
	}
	// The delays count from when the store decided. From when it was asked, in
	// whole µs, they end a little too early.
	asked -= asked % 1000
	d := &denial{request: r.Clone(), answer: *a, asked: asked, until: asked + 1000*min(wait, s.horizon.Microseconds())}
	d.answer.Source = bucket.FromDenyCache
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.given != given {
		return
	}
	if sh.denials == nil {
		sh.denials = make(map[uint64]*denial)
	}
	hash := r.Hash()
	if sh.denials[hash] == nil && len(sh.denials) >= maxDenials/shards {
		for victim := range sh.denials { // any: its key costs one call, and is back
			delete(sh.denials, victim)
			break
		}
	}
	sh.denials[hash] = d
}

// Repeated returns how many denials s has repeated.
func (s *Store) Repeated() (n int64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += sh.repeated
		sh.mu.Unlock()
	}
	return n
}

func (s *Store) shard(r *store.Request) *shard { return &s.shards[r.Hash()%shards] }
