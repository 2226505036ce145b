package lease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// This file has the steps of a decision: use the lease, wait for its renewal, or renew it.

// use decides r on the lease of its key, and sets a. ok is false, and a unchanged, if the lease can't decide r.
func (s *Store) use(r *store.Request, a *store.Answer, now time.Time) (ok bool) {
	if !leasable(r) || r.Action != bucket.Take && r.Action != bucket.Refund {
		return false
	}
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keyOf(r)
	if k == nil {
		return false
	}
	if r.Action == bucket.Take {
		if ok = k.lease.use(r.N, a, r.Plan, now); ok {
			sh.used++
		}
		return ok
	}
	return r.Ends.Ticket == 0 && k.lease.use(-r.N, a, r.Plan, now)
}

// await waits until the current renewal of r's bucket is done, if there is one.
func (s *Store) await(ctx context.Context, r *store.Request) error {
	sh := s.shard(r)
	sh.mu.Lock()
	var done <-chan struct{}
	if k := sh.bucketOf(r); k != nil && k.renewal != nil {
		done = k.renewal.done
	}
	sh.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// choose returns the next step of r, which the lease can't decide. With led, a new renewal decides r: wait for it. With done, another
// renewal is under way: wait until done is closed, and try its lease. Otherwise ask next, with before.
func (s *Store) choose(r *store.Request) (before *store.Request, led *renewal, done <-chan struct{}) {
	sh := s.shard(r)
	now := s.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.watch(r, now)
	if k == nil {
		return sh.meet(r), nil, nil
	}
	if k.renewal != nil && !k.renewal.dropped {
		k.waiting += r.N
		return nil, nil, k.renewal.done
	}
	before = sh.meet(r)
	if r.Action != bucket.Take || !leasable(r) {
		return before, nil, nil
	}
	extra := k.nextSize(s.most, now)
	if extra == 0 || k.renewal != nil || sh.blocked[r.Hash()] > 0 {
		return before, nil, nil
	}
	n := &renewal{store: s, shard: sh, key: k, request: k.refund, asked: now, done: make(chan struct{})}
	n.request.Request = bucket.Request{
		Plan: r.Plan, Action: bucket.Lease, N: r.N, More: extra,
		Ticket: bucket.FirstLease + rand.Int64N(bucket.FirstReturning-bucket.FirstLease), Ends: k.ending,
	}
	k.renewal = n
	// The renewal has a goroutine and a context of its own: others wait for it too, and the leased tokens must not be lost if
	// the caller stops waiting.
	go n.run()
	return nil, n, nil
}
