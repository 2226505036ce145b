// Package lease takes tokens of busy keys ahead, and decides in this process while they last. redisstore.WithLease puts it
// around the store on Redis; any other store can be wrapped:
//
//	store := lease.New(memcachedStore, 1000, 100*time.Millisecond)
package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucketname"
	"github.com/tokenbucket-go/ratelimit/core/internal/layer"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Store is a [store.Store] around another one, for keys that are asked for more often than that can decide.
//
// A key that is asked for again within 50 ms leases tokens with its next decision: one at first, then twice as many each
// time they are used up within 50 ms. A lease is at most a tenth of the smallest Capacity, and half of what the bucket
// has left. A key whose callers want more at once than half of that leases nothing for a second: waiting for one small lease
// after another would be slower than none. The Store gives a lease back that is not used for 100 to 200 ms. A lease ends after 2 s.
//
// Leases admit nothing beyond the limits: leased tokens have left the bucket, and it does not refill behind them until
// the lease has ended. Only Allow and AllowN use them, and only for one list of limits a key. Decisions on a lease have the
// Source [store.FromLease], and cost no call and no allocation. Up to 65,536 keys are watched for being busy.
type Store struct {
	layer.Layer

	Now  func() time.Time // the process' clock, for tests; set it before the Store is used
	Idle time.Duration    // for how long an unused lease stays here: 100 ms; set it before the Store is used

	timeout time.Duration
	most    int64 // tokens on one lease
	apart   atomic.Bool
	shards  [shards]shard
}

// New returns a Store around next, with leases of at most so many tokens. A decision that waits for another one's lease
// takes no longer than the timeout, which should be that of next.
func New(next store.Store, most int64, timeout time.Duration) *Store {
	s := &Store{Layer: layer.On(next), Idle: idle, timeout: timeout, most: most}
	s.Now = s.Config().Now
	return s
}

// Do decides r on the lease of its key, if it has enough tokens. Else it has next decide; if the key is busy that call also
// brings a lease, and others who ask meanwhile wait for that.
func (s *Store) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	if err := s.Config().ClockError(); err != nil { // what is known here must not answer for a clock that no server would take
		return a, err
	}
	if s.use(&r, &a, s.Now()) {
		return a, nil
	}
	if !r.Takes() {
		return s.Next.Do(ctx, r)
	}
	arrived := time.Now()
	for first := true; ; first = false {
		step, n, done := s.choose(&r)
		switch step {
		case ask:
			a, err = s.Next.Do(ctx, r)
			if err != nil {
				s.settleAgain([]store.Request{r})
			}
			return a, err
		case lead:
			return n.wait(ctx)
		case join:
			if first { // all steps together take no longer than one decision may
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, arrived.Add(s.timeout))
				defer cancel()
			}
			select {
			case <-done:
			case <-ctx.Done():
				return a, ctx.Err()
			}
			if s.use(&r, &a, s.Now()) {
				return a, nil
			}
		}
	}
}

// DoTogether has next decide requests in one step. It settles the leases of their keys first, so that they have all that
// their process has.
func (s *Store) DoTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	if s.apart.Load() {
		return nil, store.ErrApart
	}
	if err := s.Config().ClockError(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout) // all steps together take no longer than one decision may
	defer cancel()
	if err := s.settle(ctx, requests); err != nil {
		return nil, err
	}
	answers, err := s.Layer.DoTogether(ctx, requests)
	if err != nil {
		if errors.Is(err, store.ErrApart) {
			s.apart.Store(true)
		}
		s.settleAgain(requests)
	}
	return answers, err
}

// Reset has next forget a bucket, and forgets its lease.
func (s *Store) Reset(ctx context.Context, policy, key string) error {
	b := bucketname.New(policy, key)
	back := s.forget(b) // with the bucket goes the lease in the store
	err := s.Next.Reset(ctx, policy, key)
	if err != nil && back != nil {
		go s.giveBack(*back)
	}
	s.forget(b) // a lease that came before the store forgot the bucket
	return err
}

// GiveBack ends all leases, as at the end of a process. It returns when the store has their tokens.
func (s *Store) GiveBack() {
	for i := range s.shards {
		sh := &s.shards[i]
		var ended []store.Request
		sh.mu.Lock()
		for _, k := range sh.keys {
			back := k.refund
			back.Ends = k.end()
			ended = append(ended, back)
		}
		sh.mu.Unlock()
		for _, back := range ended {
			s.giveBack(back)
		}
	}
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
