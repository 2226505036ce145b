package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	// share: a lease is at most the smallest Capacity divided by this.
	share = 10
	// idle is how long an unused lease is kept, and how long a lease should
	// last a busy key.
	idle = 100 * time.Millisecond
	// margin is how long before its end a lease is given back, used or not.
	margin = 300 * time.Millisecond
	// shards is how many locks the keys are spread over.
	shards = 16
	// crowdRest is for how long a key leases nothing whose callers want more at
	// once than the largest lease has. Without leases they share calls, which
	// is faster.
	crowdRest = time.Second
	// maxWatched bounds the keys that are watched for being busy. Other keys
	// get no leases.
	maxWatched = 1 << 16
)

// shard is a part of the watched keys, with a lock of its own.
type shard struct {
	mu   sync.Mutex             // guards all below, and the keys and leases in it; never held across I/O
	keys map[uint64]*watchedKey // by Request.Hash: of two buckets with the same hash, one is watched
	used int64                  // decisions on leases
	// blocked counts, by the same hash, the calls under way that change a level
	// without asking.
	blocked map[uint64]int
	_       [40]byte // keeps two locks off one cache line
}

// watchedKey is a key that may be busy. All its leases are of one set, that of
// the first request.
type watchedKey struct {
	refund  store.Request // a refund of 0 tokens: with Ends set it settles a lease
	asked   time.Time     // when next was last asked for a decision
	size    int64         // of the next lease
	rest    time.Time     // no leases until then: the bucket has too few tokens, or callers want too many at once
	lease   *lease        // nil: none
	ending  bucket.Ending // settles the last lease in next; Ticket 0: it is settled
	renewal *renewal      // the current one; nil: none
	waiting int64         // tokens that callers want who wait for it
}

type lease struct {
	brought store.Answer // the answer of the renewal
	ticket  int64
	asked   time.Time // when the renewal began: at or before the instant of brought
	left    int64     // unused tokens
	used    bool      // whether it was used since the timer's last check
	timer   *time.Timer
}

// use takes n tokens of h, or puts back -n. It sets a to what the bucket has at
// now, as far as this process knows, plus what is left of h. ok is false if h
// has too few tokens or has ended. The shard's mu is held.
func (h *lease) use(n int64, a *store.Answer, p *bucket.LimitSet, now time.Time) (ok bool) {
	if h == nil || n > h.left || h.left-n > h.brought.Lent || h.over(now) {
		return false
	}
	h.used = true
	h.left -= n
	*a = h.brought
	a.Allowed, a.Source, a.Waits = true, bucket.FromLease, nil
	a.Levels.Unshare()
	a.AgeAround(p, h.brought.Lent, now.Sub(h.asked).Microseconds())
	a.Add(p, h.left)
	return true
}

// over reports whether h has ended, or the clock stepped back. The shard's mu
// is held.
func (h *lease) over(now time.Time) bool {
	return now.Before(h.asked) || now.Sub(h.asked) >= bucket.LeaseLife*time.Microsecond
}

// bucketOf returns the watched key of r's bucket, and otherwise nil. mu is
// held.
func (sh *shard) bucketOf(r *store.Request) *watchedKey {
	if k := sh.keys[r.Hash()]; k != nil && k.refund.SameBucket(r) {
		return k
	}
	return nil
}

// keyOf returns the watched key of r if its leases can decide r, and otherwise
// nil. mu is held.
func (sh *shard) keyOf(r *store.Request) *watchedKey {
	if k := sh.keys[r.Hash()]; k != nil && k.refund.Set == r.Set && k.refund.SameBucket(r) {
		return k
	}
	return nil
}

// meet is [Store.meet]. A request that takes tokens carries the Ending of the
// lease that it ended itself, and no other: those of a crowd are to share a
// record. mu is held.
func (sh *shard) meet(r *store.Request) (settlement *store.Request) {
	k := sh.bucketOf(r)
	if k == nil || !k.end() && r.Takes() || k.ending.Ticket == 0 {
		return nil
	}
	if k.refund.Set == r.Set && r.Ends.Ticket == 0 {
		r.Ends = k.ending
		return nil
	}
	back := k.settling()
	return &back
}

// leased returns a refund of 0 tokens for each key with a lease, or with one
// that comes or goes.
func (sh *shard) leased() (list []store.Request) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, k := range sh.keys {
		if k.leases() {
			list = append(list, k.refund)
		}
	}
	return list
}

// watch returns the watched key of r, which it begins to watch if necessary. It
// returns nil if too many keys are watched, or a busy one has the same hash or
// another set. mu is held.
func (sh *shard) watch(r *store.Request, now time.Time) *watchedKey {
	if k := sh.keyOf(r); k != nil {
		return k
	}
	if k := sh.keys[r.Hash()]; k != nil && k.busy(now) {
		return nil
	}
	// For each new key it forgets up to two that are not busy, so that a spike
	// of keys is forgotten as traffic goes on.
	looks := 2
	for other, k := range sh.keys {
		if looks--; looks < 0 {
			break
		}
		if !k.busy(now) {
			delete(sh.keys, other)
		}
	}
	if len(sh.keys) >= maxWatched/shards {
		return nil
	}
	if sh.keys == nil {
		sh.keys = make(map[uint64]*watchedKey)
	}
	k := &watchedKey{refund: r.Clone()}
	k.refund.Request = bucket.Request{Set: r.Set, Action: bucket.Refund}
	sh.keys[r.Hash()] = k
	return k
}

// leases reports whether k has a lease, or one comes or goes. The shard's mu is
// held.
func (k *watchedKey) leases() bool {
	return k.renewal != nil || k.lease != nil || k.ending.Ticket != 0
}

// busy reports whether k must stay watched under its set. The shard's mu is
// held.
func (k *watchedKey) busy(now time.Time) bool { return k.leases() || now.Sub(k.asked) <= idle }

// settling returns a refund of 0 tokens that settles the lease in next. The
// shard's mu is held.
func (k *watchedKey) settling() store.Request {
	r := k.refund
	r.Ends = k.ending
	return r
}

// end drops the lease, and sets ending
// whether there was one. There is none while the one before is not settled,
// because its renewal settles that. The shard's mu is held.
func (k *watchedKey) end() bool {
	h := k.lease
	if h == nil {
		return false
	}
	k.lease = nil
	h.timer.Stop()
	k.ending = bucket.Ending{Ticket: h.ticket, At: h.brought.Now + bucket.LeaseLife, Back: h.left}
	return true
}

// nextSize returns how many tokens a decision should lease beyond its cost:
// about what the key uses in the time idle. 0 means no lease. The shard's mu is
// held.
//
// Example: requests come every ms. The sizes are 0 for the first, then 1, 2, 4,
// … up to the maximum, as long as each lease is used up within 50 ms. A size
// that lasts 50 to 200 ms stays, and one that lasts longer is halved.
func (k *watchedKey) nextSize(most int64, now time.Time) (extra int64) {
	age := now.Sub(k.asked)
	k.asked = now
	switch {
	case age < idle/2:
		k.size = max(1, 2*k.size)
	case age > 2*idle:
		k.size /= 2
	}
	k.size = min(k.size, k.largest(most))
	if now.Before(k.rest) {
		return 0
	}
	return k.size
}

// largest is how many tokens a lease of k can have, of a store with leases of
// at most so many.
func (k *watchedKey) largest(most int64) int64 { return min(most, k.refund.Set.LeastCapacity()/share) }

// leasable reports whether leased tokens can decide r. Requests to limits of
// other units or by the calendar, and dry ones, always go to next.
func leasable(r *store.Request) bool { return r.N > 0 && r.Each == nil && !r.Dry && r.Set.Simple }

// This file has the steps of a decision: use the lease, wait for its renewal,
// or renew it.

// use decides r on the lease of its key, and sets a. ok is false, and a
// unchanged, if the lease can't decide r.
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
		if ok = k.lease.use(r.N, a, r.Set, now); ok {
			sh.used++
		}
		return ok
	}
	return r.Ends.Ticket == 0 && k.lease.use(-r.N, a, r.Set, now)
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

// choose returns the next step of r, which the lease can't decide. With led, a
// new renewal decides r: wait for it. With done, another renewal is under way:
// wait until done is closed, and try its lease. Otherwise ask next, with
// settlement.
func (s *Store) choose(r *store.Request) (settlement *store.Request, led *renewal, done <-chan struct{}) {
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
	settlement = sh.meet(r)
	if r.Action != bucket.Take || !leasable(r) {
		return settlement, nil, nil
	}
	extra := k.nextSize(s.most, now)
	if extra == 0 || k.renewal != nil || sh.blocked[r.Hash()] > 0 {
		return settlement, nil, nil
	}
	n := &renewal{store: s, shard: sh, key: k, request: k.refund, asked: now, done: make(chan struct{})}
	n.request.Request = bucket.Request{
		Set: r.Set, Action: bucket.Lease, N: r.N, More: extra,
		Ticket: bucket.FirstLease + rand.Int64N(bucket.FirstReturning-bucket.FirstLease), Ends: k.ending,
	}
	k.renewal = n
	// The renewal has a goroutine and a context of its own: others wait for it
	// too, and the leased tokens must not be lost if the caller stops waiting.
	go n.run()
	return nil, n, nil
}
