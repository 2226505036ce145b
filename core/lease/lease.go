// Package lease takes tokens of busy keys ahead, and decides in this process
// while they last. redisstore.WithLease puts a lease store around the store on
// Redis. It works around any other store too:
//
//	store := lease.New(memcachedStore, 1000, 100*time.Millisecond)
//
// See [docs/scale.md].
//
// [docs/scale.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/scale.md
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
	"github.com/tokenbucket-go/ratelimit/core/internal/layer"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// below is embedded under a name that is not exported.
type below = layer.Layer

// Store is a [store.Store] around another one, for keys with more requests than
// that one can decide.
//
// A key with two requests within 50 ms leases tokens with its next decision:
// one at first, then twice as many each time they are used up within 50 ms. A
// lease is at most a tenth of the smallest Capacity, and half of what the
// bucket has left. A key whose callers want more at once than the largest lease
// has leases nothing for a second: waiting for one small lease after another
// would be slower than none. The Store gives a lease back if nothing uses it
// for 100 to 200 ms. A lease ends after 2 s.
//
// Leases admit nothing beyond the limits: leased tokens have left the bucket,
// and it does not refill behind them until the lease has ended. Only Allow and
// AllowN use them, and only for one list of limits a key. Decisions on a lease
// have the Source core.FromLease, and cost no call and no allocation. Up to
// 65,536 keys are watched for being busy.
//
// Every request that a lease does not decide settles the lease that it meets:
// unused tokens come back with its call, or with one before it, and nothing
// more is taken from the lease. After the answer of a debit or a Reset, no
// lease that was asked for before is used, not even one whose answer comes
// later.
type Store struct {
	below

	now     func() time.Time // the process's clock
	idle    time.Duration    // for how long an unused lease stays here
	timeout time.Duration
	most    int64       // the largest lease, in tokens
	apart   atomic.Bool // next has returned ErrApart: it decides no requests on several buckets together
	shards  [shards]shard
}

func init() {
	hook.Lease = func(s *Store) (now *func() time.Time, idle *time.Duration) { return &s.now, &s.idle }
}

// New returns a Store around next, with leases of at most so many tokens. A
// decision that waits for a lease which another one renews fails after the
// timeout, which should be that of next. [core.NewLimiter] reports a timeout
// that is not above 0.
//
// [core.NewLimiter]: https://pkg.go.dev/github.com/tokenbucket-go/ratelimit/core#NewLimiter
func New(next store.Store, most int64, timeout time.Duration) *Store {
	s := &Store{below: layer.On(next), idle: idle, timeout: timeout, most: most}
	s.now = s.Config().Now
	if timeout <= 0 {
		s.Config().ArgumentError("lease.New timeout", timeout, "must be above 0")
	}
	return s
}

// Do decides r on the lease of its key, if that has enough tokens. Otherwise
// next decides, and the lease is settled with that call or before it. If the
// key is busy, the call also renews the lease, and other requests wait for it.
func (s *Store) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	if err := s.Config().ClockError(); err != nil { // a lease must not decide at an instant that no store would accept
		return a, err
	}
	if s.use(&r, &a, s.now()) {
		return a, nil
	}
	if !r.Takes() {
		if r.Charges() {
			s.block(&r)
			defer s.unblock(&r)
		}
		return s.ask(ctx, r, s.meet(&r))
	}
	arrived := time.Now()
	for first := true; ; first = false {
		settlement, led, done := s.choose(&r)
		switch {
		case led != nil:
			return led.wait(ctx)
		case done == nil:
			return s.ask(ctx, r, settlement)
		}
		if first { // the timeout is for all rounds of this loop together
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, arrived.Add(s.timeout)) //nolint:fatcontext // in the first round alone
			defer cancel()
		}
		select {
		case <-done:
		case <-ctx.Done():
			return a, ctx.Err()
		}
		if s.use(&r, &a, s.now()) {
			return a, nil
		}
	}
}

// DoTogether has next decide requests in one step. They settle the leases of
// their keys first, so that they can take all the tokens of this process.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	if s.apart.Load() && !layer.OneBucket(requests) {
		return nil, store.ErrApart
	}
	if err := s.Config().ClockError(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout) // for the waits for renewals and the decision together
	defer cancel()
	for i := range requests {
		if err := s.await(ctx, &requests[i]); err != nil {
			return nil, err
		}
	}
	for i := range requests {
		s.sendSettlement(ctx, s.meet(&requests[i]))
	}
	answers, err := s.below.DoTogether(ctx, requests)
	if errors.Is(err, store.ErrApart) {
		s.apart.Store(true)
	}
	written := err
	for i := range answers {
		written = errors.Join(written, answers[i].Err) // next may have written none of them then
	}
	for i := range requests {
		s.settled(&requests[i], written)
	}
	return answers, err
}

// Reset has next forget a bucket, and with it the lease.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	r := store.NewRequest(policy, key, bucket.Request{})
	s.block(&r)
	defer s.unblock(&r)
	lost := s.meet(&r)
	err := s.Next.Reset(ctx, policy, key)
	if lost != nil { // it is not given back unless the reset fails
		s.settled(lost, err)
	}
	return err
}

// GiveBack ends all leases and returns when next has their tokens. Call it at
// the end of a process.
func (s *Store) GiveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	var wait sync.WaitGroup
	for i := range s.shards {
		wait.Go(func() {
			for _, r := range s.shards[i].leased() {
				_ = s.await(ctx, &r)
				s.meet(&r)
				s.giveBack(r)
			}
		})
	}
	wait.Wait()
}

// Used returns how many decisions were made on leases.
func (s *Store) Used() (n int64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += sh.used
		sh.mu.Unlock()
	}
	return n
}

// This file settles leases. A request that a lease does not decide meets the
// lease of its bucket: that ends, and the request carries its [bucket.Ending]
// to next. Until a call with it is answered, every call that returns or charges
// tokens carries the Ending too, because next may execute it first: while next
// still holds the tokens of the lease, it has no room for those that were used
// of them. Settling a lease a second time changes nothing.

// ask has next decide r, which has met the lease of its bucket. Before it sends
// what meet returned.
func (s *Store) ask(ctx context.Context, r store.Request, settlement *store.Request) (a store.Answer, err error) {
	s.sendSettlement(ctx, settlement)
	a, err = s.Next.Do(ctx, r)
	s.settled(&r, err)
	return a, err
}

// sendSettlement settles a lease by a call of its own, before that of a request
// which can't. nil: there is none.
func (s *Store) sendSettlement(ctx context.Context, settlement *store.Request) {
	if settlement == nil {
		return
	}
	r := *settlement
	if r.Set = r.Set.ForRefund(r.Key()); r.Set == nil { // nothing of its limits is left
		s.settled(settlement, nil)
		return
	}
	_, err := s.Next.Do(ctx, r)
	s.settled(settlement, err)
}

// meet ends the lease of r's bucket, and has r settle it. If r can't, because
// it is under other limits or ends a hold of its own, meet returns the request
// that settles it, which must be sent before r.
func (s *Store) meet(r *store.Request) (settlement *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.meet(r)
}

// settled notes that a call with r was answered, so that the lease is settled
// which r has met. After an error, when the call may have been executed or not,
// it settles the lease again, in the background.
func (s *Store) settled(r *store.Request, err error) {
	if r.Ends.Ticket == 0 {
		return
	}
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[r.Hash()]
	switch {
	case k == nil || k.ending.Ticket != r.Ends.Ticket: // another call has settled it, or r ends a hold of another kind
	case err == nil:
		k.ending = bucket.Ending{}
	default:
		go s.giveBack(k.settling())
	}
}

// giveBack sends r, a refund, with the lease that it settles. It tries once:
// without it the lease ends by itself and the tokens refill.
func (s *Store) giveBack(r store.Request) {
	if r.N == 0 && r.Ends.Ticket == 0 {
		return
	}
	if p := r.Set.ForRefund(r.Key()); p != nil {
		back := r
		back.Set = p
		_, _ = s.inBackground(back)
	}
	s.settled(&r, nil)
}

// inBackground has next decide r in a goroutine that no caller waits in, where
// a panic would end the process: it is an error.
func (s *Store) inBackground(r store.Request) (a store.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the store panicked: %v", p)
		}
	}()
	return s.Next.Do(context.Background(), r)
}

// block has the key of r lease nothing until unblock, and a lease under way
// settled as soon as it comes. Otherwise a lease that next granted before it
// executed r would still be used after r is answered.
func (s *Store) block(r *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.blocked == nil {
		sh.blocked = make(map[uint64]int)
	}
	sh.blocked[r.Hash()]++
	if k := sh.bucketOf(r); k != nil && k.renewal != nil {
		k.renewal.dropped = true
	}
}

func (s *Store) unblock(r *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.blocked[r.Hash()]--; sh.blocked[r.Hash()] == 0 {
		delete(sh.blocked, r.Hash())
	}
}

func (s *Store) shard(r *store.Request) *shard {
	return &s.shards[r.Hash()%shards]
}
