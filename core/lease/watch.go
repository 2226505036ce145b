package lease

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucketname"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// use decides r in a on the lease of its key, if it has enough tokens.
func (s *Store) use(r *store.Request, a *store.Answer, now time.Time) (ok bool) {
	if !leasable(r) || r.Action != bucket.Take && r.Action != bucket.Refund {
		return false
	}
	b := bucketname.Of(r)
	sh := s.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.under(r.Plan, b)
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

// settle has requests, which are decided together, settle the leases of their keys, so that they have all that their
// process has. Renewals that are under way end first.
func (s *Store) settle(ctx context.Context, requests []store.Request) error {
	for i := range requests {
		if done := s.look(&requests[i], false); done != nil {
			select {
			case <-done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	for i := range requests {
		s.look(&requests[i], true)
	}
	return nil
}

// look returns what is closed when the renewal of r's key ends that is under way. If there is none and r is to settle the lease, it
// does.
func (s *Store) look(r *store.Request, settles bool) (done <-chan struct{}) {
	b := bucketname.Of(r)
	sh := s.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.under(r.Plan, b)
	if k == nil {
		return nil
	}
	if k.renewal == nil && settles {
		r.Ends = k.end()
	}
	return k.renewal
}

// leaseStep is what a request does next that no lease serves.
type leaseStep int

const (
	ask  leaseStep = iota // Redis, by itself; the request settles the lease of its key
	join                  // wait for a renewal that is under way, and try its lease
	lead                  // wait for a renewal that decides this very request
)

// choose chooses the next step of r: to wait for a renewal, or to lead one, which it starts.
func (s *Store) choose(r *store.Request) (step leaseStep, led *renewal, done <-chan struct{}) {
	b := bucketname.Of(r)
	sh := s.shard(b)
	now := s.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.watch(b, r, now)
	if k == nil || k.refund.Plan != r.Plan { // watched under another plan
		return ask, nil, nil
	}
	if k.renewal != nil {
		k.waiting += r.N
		return join, nil, k.renewal
	}
	r.Ends = k.end()
	if r.Action != bucket.Take || !leasable(r) {
		return ask, nil, nil
	}
	extra := k.next(s.most, now)
	if extra == 0 {
		return ask, nil, nil
	}
	n := &renewal{store: s, shard: sh, key: k, request: k.refund, asked: now, done: make(chan struct{})}
	n.request.Request = bucket.Request{
		Plan: r.Plan, Action: bucket.Lease, N: r.N, More: extra, Ticket: bucket.FirstLease + rand.Int64N(bucket.FirstLease), Ends: r.Ends,
	}
	k.renewal = n.done
	// It runs neither in the caller's context nor in its goroutine: others wait too, and tokens that come must be kept.
	go n.run()
	return lead, n, nil
}

// forget stops watching a key, and returns the refund that settles its lease: nil if it was not watched.
func (s *Store) forget(b bucketname.Name) (back *store.Request) {
	sh := s.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[b]
	if k == nil {
		return nil
	}
	delete(sh.keys, b)
	refund := k.refund
	refund.Ends = k.end()
	return &refund
}

// shard returns where a key is watched.
func (s *Store) shard(b bucketname.Name) *shard {
	return &s.shards[b.Hash%shards]
}
