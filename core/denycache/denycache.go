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
// same key in this process, with the right RetryAfter. A refund or reset
// through this Store ends a repeated denial at once. Those of other processes
// are seen when the horizon is over. A repeated denial costs no call and no
// allocation, and has the Source core.FromDenyCache. The Store holds at most
// 65,536 keys.
type Store struct {
	below
	cache
}

// New returns a Store around next. The horizon is for how long it repeats a
// denial; 0 or less: never.
func New(next store.Store, horizon time.Duration) *Store {
	s := &Store{below: layer.On(next)}
	s.horizon = horizon
	return s
}

// Do repeats a denial that still holds for r, or has next decide.
func (s *Store) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	if s.horizon <= 0 {
		return s.Next.Do(ctx, r)
	}
	if !applies(&r) {
		s.begin(&r)
		a, err = s.Next.Do(ctx, r)
		s.end(&r, a.Allowed, err)
		return a, err
	}
	asked, err := s.now()
	if err != nil {
		return a, err
	}
	repeated, version := s.repeat(&r, &a, asked)
	if repeated {
		return a, nil
	}
	a, err = s.Next.Do(ctx, r)
	if err != nil || a.Allowed {
		s.invalidate(&r)
	} else if answered, err := s.now(); err == nil {
		s.keep(&r, &a, version, asked, answered)
	}
	return a, err
}

// DoTogether has next decide requests in one step.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	for i := range requests {
		s.begin(&requests[i])
	}
	answers, err := s.below.DoTogether(ctx, requests)
	for i := range requests {
		s.end(&requests[i], true, err)
	}
	return answers, err
}

// Reset has next forget a bucket, and drops its denial.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	r := store.NewRequest(policy, key, bucket.Request{})
	s.beginReturn(&r)
	err := s.Next.Reset(ctx, policy, key)
	s.endReturn(&r, err)
	return err
}

// begin must be called before next decides a request that the cache can't
// answer.
func (s *Store) begin(r *store.Request) {
	if r.Gives() {
		s.beginReturn(r)
	}
}

// end must be called after begin, with the result.
func (s *Store) end(r *store.Request, allowed bool, err error) {
	switch {
	case r.Gives():
		s.endReturn(r, err)
	case r.Moves() && (allowed || err != nil):
		s.invalidate(r)
	}
}

// applies reports whether the cache may answer r: it takes tokens, returns
// none, and takes as many from each limit.
func applies(r *store.Request) bool {
	return (r.Action == bucket.Take || r.Action == bucket.Lease) && r.N > 0 && r.Each == nil && r.Ends.Ticket == 0
}

func (s *Store) now() (instant, error) {
	at, err := s.Config().Nanos()
	return instant(at), err
}
