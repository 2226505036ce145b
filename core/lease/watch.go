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

// settle makes requests, which are decided together, settle the leases of their keys. First it waits for renewals to end.
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

// look returns the channel that is closed when the current renewal of r's key is done; nil: there is none. In that case, and if
// settles is set, r settles the lease, unless it ends another hold.
func (s *Store) look(r *store.Request, settles bool) (done <-chan struct{}) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keyOf(r)
	if k == nil {
		return nil
	}
	if k.renewal == nil && settles && r.Ends.Ticket == 0 {
		r.Ends = k.end()
	}
	return k.renewal
}

// leaseStep is the next step of a request that the lease can't decide.
type leaseStep int

const (
	ask  leaseStep = iota // next decides; the request settles the lease of its key
	join                  // wait for the current renewal, and try its lease
	lead                  // a new renewal decides this request: wait for it
)

// choose returns the next step of r: with lead the renewal, which it starts, and with join the channel that its end closes.
func (s *Store) choose(r *store.Request) (step leaseStep, led *renewal, done <-chan struct{}) {
	sh := s.shard(r)
	now := s.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.watch(r, now)
	if k == nil {
		return ask, nil, nil
	}
	if k.renewal != nil {
		k.waiting += r.N
		return join, nil, k.renewal
	}
	if r.Ends.Ticket == 0 {
		r.Ends = k.end()
	}
	if r.Action != bucket.Take || !leasable(r) {
		return ask, nil, nil
	}
	extra := k.nextSize(s.most, now)
	if extra == 0 {
		return ask, nil, nil
	}
	n := &renewal{store: s, shard: sh, key: k, request: k.refund, asked: now, done: make(chan struct{})}
	n.request.Request = bucket.Request{
		Plan: r.Plan, Action: bucket.Lease, N: r.N, More: extra, Ticket: bucket.FirstLease + rand.Int64N(bucket.FirstReturning-bucket.FirstLease), Ends: r.Ends,
	}
	k.renewal = n.done
	// The renewal has a goroutine and a context of its own: others wait for it too, and the leased tokens must not be lost if
	// the caller stops waiting.
	go n.run()
	return lead, n, nil
}

// forget stops watching a key, and returns the refund that settles its lease; nil if the key was not watched.
func (s *Store) forget(r *store.Request) (back *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[r.Hash()]
	if k == nil || !k.refund.SameBucket(r) {
		return nil
	}
	delete(sh.keys, r.Hash())
	refund := k.refund
	refund.Ends = k.end()
	return &refund
}

// shard returns the shard of r's key.
func (s *Store) shard(r *store.Request) *shard {
	return &s.shards[r.Hash()%shards]
}
