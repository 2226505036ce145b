package redisstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// leases are what this process knows of busy keys.
type leases struct {
	lender
	denials *denyCache // that returned tokens end
	most    int64      // tokens on one lease; 0: none
	shards  [leaseShards]leaseShard
}

// spend decides r in a on the lease of its key, if it has enough tokens.
func (l *leases) spend(r *store.Request, a *store.Answer, now time.Time) (ok bool) {
	if l.most == 0 || !leasable(r) || r.Action != bucket.Take && r.Action != bucket.Refund {
		return false
	}
	b := of(r)
	sh := l.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.under(r.Plan, b)
	if k == nil {
		return false
	}
	if r.Action == bucket.Take {
		if ok = k.lease.use(r.N, a, r.Plan, now); ok {
			sh.spent++
		}
		return ok
	}
	if ok = r.Ends.Ticket == 0 && k.lease.use(-r.N, a, r.Plan, now); ok {
		l.denials.taken(b) // a denial that counted without these tokens is old
	}
	return ok
}

// askOrLease has r, which no lease serves, decided by Redis. If its key is busy the call also brings a lease, and others
// who ask meanwhile wait for that.
func (l *leases) askOrLease(ctx context.Context, r store.Request) (a store.Answer, err error) {
	if l.most == 0 || !r.Takes() {
		return l.flights.ask(ctx, r)
	}
	arrived := time.Now()
	for first := true; ; first = false {
		step, n, landing := l.choose(&r)
		switch step {
		case ask:
			a, err = l.flights.ask(ctx, r)
			if err != nil {
				l.settleAgain([]store.Request{r})
			}
			return a, err
		case lead:
			return n.wait(ctx)
		case join:
			if first { // all steps together take no longer than one decision may
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, arrived.Add(l.flights.timeout))
				defer cancel()
			}
			select {
			case <-landing:
			case <-ctx.Done():
				return a, ctx.Err()
			}
			if l.spend(&r, &a, l.now()) {
				return a, nil
			}
		}
	}
}

// settle has requests, which are decided together, settle the leases of their keys, so that they have all that their
// process has. Renewals that are under way land first.
func (l *leases) settle(ctx context.Context, requests []store.Request) error {
	for i := range requests {
		if landing := l.look(&requests[i], false); landing != nil {
			select {
			case <-landing:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	for i := range requests {
		l.look(&requests[i], true)
	}
	return nil
}

// look returns the landing of the renewal of r's key that is under way. If there is none and r is to settle the lease, it
// does.
func (l *leases) look(r *store.Request, settles bool) (landing <-chan struct{}) {
	b := of(r)
	sh := l.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.under(r.Plan, b)
	if k == nil {
		return nil
	}
	if k.landing == nil && settles {
		r.Ends = k.end()
	}
	return k.landing
}

// leaseStep is what a request does next that no lease serves.
type leaseStep int

const (
	ask  leaseStep = iota // Redis, by itself; the request settles the lease of its key
	join                  // wait for a renewal that is under way, and try its lease
	lead                  // wait for a renewal that decides this very request
)

// choose chooses the next step of r: to join the landing of a renewal, or to lead one, which it starts.
func (l *leases) choose(r *store.Request) (step leaseStep, led *renewal, landing <-chan struct{}) {
	b := of(r)
	sh := l.shard(b)
	now := l.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.watch(b, r, now)
	if k == nil || k.refund.Plan != r.Plan { // watched under another plan
		return ask, nil, nil
	}
	if k.landing != nil {
		return join, nil, k.landing
	}
	r.Ends = k.end()
	if r.Action != bucket.Take || !leasable(r) {
		return ask, nil, nil
	}
	extra := k.next(l.most, now)
	if extra == 0 {
		return ask, nil, nil
	}
	n := &renewal{lender: &l.lender, shard: sh, key: k, request: k.refund, asked: now, landed: make(chan struct{})}
	n.request.Request = bucket.Request{
		Plan: r.Plan, Action: bucket.Lease, N: r.N, More: extra, Ticket: bucket.FirstLease + rand.Int64N(bucket.FirstLease), Ends: r.Ends,
	}
	k.landing = n.landed
	// It runs neither in the caller's context nor in its goroutine: others wait too, and tokens that come must be kept.
	go n.run()
	return lead, n, nil
}

// forget stops watching a key, and returns the refund that settles its lease: nil if it was not watched.
func (l *leases) forget(b bucketOf) (back *store.Request) {
	sh := l.shard(b)
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
func (l *leases) shard(b bucketOf) *leaseShard {
	return &l.shards[b.hash%leaseShards]
}
