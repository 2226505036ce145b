package redisstore

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	// leaseLife is for how long tokens may be used that were taken ahead, from
	// when the call was sent. So no window of d admits more than MaxIn(d +
	// leaseLife).
	leaseLife = 100 * time.Millisecond
	// leaseShare: a lease has at most the smallest Capacity divided by this.
	leaseShare = 10
	// maxWatched bounds the keys that are watched for being busy. Other keys
	// get no leases.
	maxWatched = 1 << 16
)

// leases is a store around next that takes tokens of busy keys ahead, and
// decides in this process while they last: see [WithLease]. Requests wait for
// leases, so next must bound how long a call takes. It is safe for concurrent
// use.
type leases struct {
	next   store.JointStore
	config *store.Config
	most   int64 // the largest lease, in tokens
	shards [shards]leaseShard
}

// leaseShard is a part of the watched keys, with a lock of its own.
type leaseShard struct {
	mu   sync.Mutex             // guards all below, and the keys in it; never held across I/O
	keys map[uint64]*watchedKey // by Request.Hash: of two buckets with the same hash, one is watched
	used int64                  // decisions on leases
	_    [40]byte               // keeps two locks off one cache line
}

// watchedKey is a key that may be busy, and its lease.
type watchedKey struct {
	request  store.Request // the first one: all leases are of its limits
	asked    time.Time     // when a call was last needed
	size     int64         // of the next lease, in tokens
	inBucket int64         // tokens that the bucket had left after the last call that should take a lease
	seen     time.Time     // when that was sent

	taken   store.Answer // of the call that took the lease
	sent    time.Time    // when that was sent
	left    int64        // tokens of the lease that are not used
	renewal *renewal     // the call under way that takes a lease; nil: there is none
}

// renewal is a call that takes a lease.
type renewal struct {
	coming int64         // tokens of the lease that no request waits for; guarded by the shard's mu
	done   chan struct{} // closed when it is answered
	err    error         // set before
}

// Do decides r on the lease of its key, if that has enough tokens, or will have
// them when a call under way is answered. Otherwise next decides. If the key is
// busy, that call takes a lease too.
func (s *leases) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	if !leasable(&r) {
		return s.next.Do(ctx, r)
	}
	if err := s.config.ClockError(); err != nil { // a lease must not decide at an instant that no store would accept
		return a, err
	}
	used, ahead, wait := s.use(&r, &a, true)
	if wait != nil {
		select {
		case <-wait.done:
		case <-ctx.Done():
			return a, ctx.Err()
		}
		if wait.err != nil {
			return a, wait.err
		}
		used, ahead, _ = s.use(&r, &a, false)
	}
	switch {
	case used:
		return a, nil
	case ahead > 0:
		return s.renew(ctx, r, ahead)
	}
	return s.next.Do(ctx, r)
}

// leasable reports whether leased tokens can decide r.
func leasable(r *store.Request) bool {
	if r.Action != bucket.Take || r.Dry || r.Times > 0 || r.N <= 0 || r.Each != nil || r.Floors != nil || !r.Set.Plain {
		return false
	}
	for i := range r.Set.Rates {
		if r.Set.Rates[i].Other {
			return false
		}
	}
	return true
}

// use decides r on the lease of its key, and sets a. Otherwise it returns what r
// can wait for, if it waits at all, or how many times r's tokens the call for r
// takes ahead.
func (s *leases) use(r *store.Request, a *store.Answer, waits bool) (used bool, ahead int64, wait *renewal) {
	now := s.config.Now()
	sh := &s.shards[r.Hash()%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.watch(r, now)
	switch {
	case k == nil:
		return false, 0, nil
	case k.left >= r.N && !now.Before(k.sent) && now.Sub(k.sent) < leaseLife:
		k.left -= r.N
		sh.used++
		k.answer(a, now.Sub(k.sent))
		a.Source = bucket.FromLease
		return true, 0, nil
	case k.renewal == nil:
		if ahead = k.nextSize(s.most, now) / r.N; ahead > 0 {
			k.renewal = &renewal{coming: ahead * r.N, done: make(chan struct{})}
		}
		return false, ahead, nil
	case waits && k.renewal.coming >= r.N:
		k.renewal.coming -= r.N
		return false, 0, k.renewal
	}
	return false, 0, nil
}

// answer sets a to the answer of a request that took its tokens from the lease,
// or with it: what the bucket had so long ago, and what the lease has left. The
// shard's mu is held.
func (k *watchedKey) answer(a *store.Answer, age time.Duration) {
	*a = k.taken
	a.Granted = 1
	a.Levels.Unshare()
	a.Age(k.request.Set, age.Microseconds())
	for i := range k.request.Set.Rates {
		a.Levels.At(i).Units += k.left * k.request.Set.Rates[i].Unit
	}
}

// watch returns the watched key of r, which it begins to watch if necessary; nil
// if too many keys are watched, or a busy one has the same hash or other limits.
// mu is held.
func (sh *leaseShard) watch(r *store.Request, now time.Time) *watchedKey {
	hash := r.Hash()
	k := sh.keys[hash]
	switch {
	case k != nil && k.request.Set == r.Set && k.request.SameBucket(r):
		return k
	case k != nil && k.busy(now):
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
	k = &watchedKey{request: r.Clone()}
	sh.keys[hash] = k
	return k
}

// busy reports whether k must stay watched. The shard's mu is held.
func (k *watchedKey) busy(now time.Time) bool {
	return k.renewal != nil || k.left > 0 || now.Sub(k.asked) <= leaseLife
}

// nextSize returns how many tokens a call should lease beyond its cost: about
// what the key uses in 100 ms. 0 means no lease. The shard's mu is held.
//
// Example: requests come every ms. The sizes are 0 for the first, then 1, 2, 4,
// … up to the maximum, as long as each lease is used up within 50 ms. A size
// that lasts 50 to 200 ms stays, and one that lasts longer is halved. It is at
// most half of what the bucket had left within the last 100 ms, so that other
// processes find tokens too.
func (k *watchedKey) nextSize(most int64, now time.Time) int64 {
	age := now.Sub(k.asked)
	k.asked = now
	switch {
	case age < leaseLife/2:
		k.size = max(1, 2*k.size)
	case age > 2*leaseLife:
		k.size /= 2
	}
	k.size = max(0, min(k.size, most, k.request.Set.LeastCapacity()/leaseShare))
	if now.Sub(k.seen) < leaseLife {
		return min(k.size, k.inBucket/2)
	}
	return k.size
}

// renew has next decide r, and take the tokens for so many more requests ahead.
// If ctx ends before the answer comes, r's own tokens are given back then.
func (s *leases) renew(ctx context.Context, r store.Request, ahead int64) (store.Answer, error) {
	type result struct {
		a   store.Answer
		err error
	}
	done := make(chan result, 1)
	own := r.Clone() // the caller may reuse the key when it returns
	own.Times = 1 + ahead
	go func() {
		sent := s.config.Now()
		a, err := s.take(own)
		s.renewed(&own, &a, err, sent)
		done <- result{a, err}
	}()
	select {
	case res := <-done:
		return res.a, res.err
	case <-ctx.Done():
		go func() {
			if res := <-done; res.err == nil && res.a.Allowed {
				s.giveBack(own, own.N)
			}
		}()
		return store.Answer{}, ctx.Err()
	}
}

// take has next decide r in a goroutine that no caller waits in, where a panic
// would end the process: it is an error.
func (s *leases) take(r store.Request) (a store.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the store panicked: %v", p)
		}
	}()
	return s.next.Do(context.Background(), r)
}

// renewed makes what a call has taken, beyond what r itself takes, the lease of
// its key, and has it given back when its life is over. It sets a to r's answer.
func (s *leases) renewed(r *store.Request, a *store.Answer, err error, sent time.Time) {
	sh := &s.shards[r.Hash()%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[r.Hash()] // it was busy, so it is still there
	k.renewal.err = err
	close(k.renewal.done)
	k.renewal = nil
	if err != nil || !a.Allowed {
		k.size = 0 // begin with small leases again
	}
	if err != nil {
		return
	}
	k.inBucket, k.seen = math.MaxInt64, sent
	for i := range r.Set.Rates {
		k.inBucket = min(k.inBucket, a.Remaining(r.Set, i))
	}
	if !a.Allowed {
		return
	}
	if k.left > 0 { // of a lease before, which had too few for r
		go s.giveBack(k.request, k.left)
	}
	k.taken, k.sent, k.left = *a, sent, (a.Granted-1)*r.N
	if k.left > 0 {
		time.AfterFunc(leaseLife-s.config.Now().Sub(sent), func() { s.expire(k, sent) })
	}
	k.answer(a, 0)
}

// expire gives back what is left of a lease that was asked for at an instant.
func (s *leases) expire(k *watchedKey, sent time.Time) {
	sh := &s.shards[k.request.Hash()%shards]
	sh.mu.Lock()
	left := int64(0)
	if k.sent.Equal(sent) {
		left, k.left = k.left, 0
	}
	sh.mu.Unlock()
	s.giveBack(k.request, left)
}

// giveBack returns tokens. It tries once: without it they refill.
func (s *leases) giveBack(r store.Request, tokens int64) {
	if tokens > 0 {
		r.Request = bucket.Request{Set: r.Set, Action: bucket.Charge, N: -tokens}
		_, _ = s.take(r)
	}
}

// DoTogether has next decide requests in one step.
func (s *leases) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	return s.next.DoTogether(ctx, requests)
}

// Reset has next forget a bucket.
func (s *leases) Reset(ctx context.Context, policy, key string) error {
	return s.next.Reset(ctx, policy, key)
}

// GiveBack ends all leases and returns when next has their tokens. Call it at
// the end of a process, after the last decision.
func (s *leases) GiveBack() {
	var wait sync.WaitGroup
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, k := range sh.keys {
			if left := k.left; left > 0 {
				k.left = 0
				wait.Go(func() { s.giveBack(k.request, left) })
			}
		}
		sh.mu.Unlock()
	}
	wait.Wait()
}

// Used returns how many decisions were made on leases.
func (s *leases) Used() (n int64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += sh.used
		sh.mu.Unlock()
	}
	return n
}
