package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// denyCache is a store around next that repeats denials which still hold,
// without asking next again: see [WithDenyCache]. A repeated denial has what was
// left when next denied it. It costs no call, and no allocation for up to 4
// limits. Slots and estimates, which may come back at any time, are always asked
// for. Of each key the denial of the last cost is kept. It is safe for
// concurrent use.
type denyCache struct {
	next    store.JointStore
	config  *store.Config
	horizon time.Duration // for how long a denial is repeated
	shards  [shards]denyShard
}

const (
	// maxDenials bounds the denials of a denyCache. A new one replaces any
	// other.
	maxDenials = 1 << 16
	// shards is how many locks the keys of a denyCache, and of leases, are
	// spread over.
	shards = 16
)

// denyShard is a part of the keys, with a lock of its own.
type denyShard struct {
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

// cacheable reports whether a denial of r may hold: it takes a number of tokens,
// and only time brings more.
func cacheable(r *store.Request) bool {
	return r.Action == bucket.Take && !r.Dry && r.N > 0 && r.Each == nil && r.Floors == nil && !r.Set.Holds
}

// Do repeats a denial that still holds for r, or has next decide.
func (s *denyCache) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	switch {
	case r.Gives():
		defer s.given(&r)
		return s.next.Do(ctx, r)
	case !cacheable(&r):
		if a, err = s.next.Do(ctx, r); a.Allowed && !r.Dry && r.Moves() || a.Penalty {
			s.drop(&r)
		}
		return a, err
	}
	asked, err := s.config.Nanos()
	if err != nil {
		return a, err
	}
	repeated, given := s.repeat(&r, &a, asked)
	if repeated {
		return a, nil
	}
	a, err = s.next.Do(ctx, r)
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
func (s *denyCache) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	answers, err := s.next.DoTogether(ctx, requests)
	for i := range requests {
		s.drop(&requests[i])
	}
	return answers, err
}

// Reset has next forget a bucket, and drops its denial.
func (s *denyCache) Reset(ctx context.Context, policy, key string) error {
	r := store.NewRequest(policy, key, bucket.Request{})
	defer s.given(&r)
	return s.next.Reset(ctx, policy, key)
}

// given drops the denial of a bucket to which tokens have come back.
func (s *denyCache) given(r *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.given++
	delete(sh.denials, r.Hash())
}

// drop drops the denial of a bucket that others have taken from: its delay has
// become longer.
func (s *denyCache) drop(r *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.denials, r.Hash())
}

// repeat sets a to a denial that still holds for r at now. given is for keep.
func (s *denyCache) repeat(r *store.Request, a *store.Answer, now int64) (ok bool, given int64) {
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
func (s *denyCache) keep(r *store.Request, a *store.Answer, given, asked int64) {
	wait := int64(0) // in µs: until every limit has the tokens
	for i := range r.Set.Rates {
		wait = max(wait, a.RetryAfter(r.Set, i, r.Of(i)))
	}
	for i := range r.Set.Rates { // when a debt is paid, a denial makes another one
		if rate := &r.Set.Rates[i]; rate.Penalty > 0 {
			wait = min(wait, max(0, -a.Levels.At(i).Units)/rate.Gain*rate.Step)
		}
	}
	// The delays count from when the store decided. From when it was asked, in
	// whole µs, they end a little too early.
	asked -= asked % 1000
	d := &denial{request: r.Clone(), answer: *a, asked: asked, until: asked + 1000*min(wait, s.horizon.Microseconds())}
	d.answer.Source, d.answer.Penalty = bucket.FromDenyCache, false
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
func (s *denyCache) Repeated() (n int64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += sh.repeated
		sh.mu.Unlock()
	}
	return n
}

func (s *denyCache) shard(r *store.Request) *denyShard { return &s.shards[r.Hash()%shards] }
