package lease

import (
	"context"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// This file settles leases. A request that a lease does not decide meets the lease of its bucket: that ends, and the request carries
// its [bucket.Ending] to next. Until a call with it is answered, every call that returns or charges tokens carries the Ending too,
// because next may execute it first: while next still holds the tokens of the lease, it has no room for those that were used of them.
// Settling a lease a second time changes nothing.

// ask has next decide r, which has met the lease of its bucket. Before it sends what meet returned.
func (s *Store) ask(ctx context.Context, r store.Request, before *store.Request) (a store.Answer, err error) {
	s.sendBefore(ctx, before)
	a, err = s.Next.Do(ctx, r)
	s.settled(&r, err)
	return a, err
}

// sendBefore settles a lease by a call of its own, before that of a request which can't. nil: there is none.
func (s *Store) sendBefore(ctx context.Context, before *store.Request) {
	if before == nil {
		return
	}
	r := *before
	if r.Plan = r.Plan.ForRefund(r.Key()); r.Plan == nil { // nothing of its limits is left
		s.settled(before, nil)
		return
	}
	_, err := s.Next.Do(ctx, r)
	s.settled(before, err)
}

// meet ends the lease of r's bucket, and has r settle it. If r can't, because it is under other limits or ends a hold of its own, meet
// returns the request that must be sent before r.
func (s *Store) meet(r *store.Request) (before *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.meet(r)
}

// settled notes that a call with r was answered, so that the lease is settled which r has met. After an error it settles the lease
// again, in the background: the call may have been executed or not.
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
		back := k.refund
		back.Ends = k.ending
		go s.giveBack(back)
	}
}

// giveBack sends r, a refund, with the lease that it settles. It tries once: without it the lease ends by itself and the tokens
// refill.
func (s *Store) giveBack(r store.Request) {
	if r.N == 0 && r.Ends.Ticket == 0 {
		return
	}
	if p := r.Plan.ForRefund(r.Key()); p != nil {
		back := r
		back.Plan = p
		_, _ = s.inBackground(back)
	}
	s.settled(&r, nil)
}

// inBackground has next decide r in a goroutine that no caller waits in, where a panic would end the process: it is an error.
func (s *Store) inBackground(r store.Request) (a store.Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the store panicked: %v", p)
		}
	}()
	return s.Next.Do(context.Background(), r)
}

// block has the key of r lease nothing until unblock. A lease under way is settled as soon as it comes. Otherwise a lease that next
// granted before it executed r would still be used after r is answered.
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

// unblock ends what block began.
func (s *Store) unblock(r *store.Request) {
	sh := s.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.blocked[r.Hash()]--; sh.blocked[r.Hash()] == 0 {
		delete(sh.blocked, r.Hash())
	}
}

// shard returns the shard of r's key.
func (s *Store) shard(r *store.Request) *shard {
	return &s.shards[r.Hash()%shards]
}
