package lease

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucketname"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// giveBack returns the tokens of r, a refund, and of the lease it ends. It tries once: the store forgets a lease by itself,
// and tokens refill.
func (s *Store) giveBack(r store.Request) {
	if r.Plan = r.Plan.ForRefund(r.Key()); r.Plan == nil || r.N == 0 && r.Ends.Ticket == 0 {
		return
	}
	_, _ = s.Next.Do(context.Background(), r)
}

// settleAgain settles the leases that requests were to settle, in the background. Their call had no answer, or was not sent.
// Who settles a lease a second time changes nothing.
func (s *Store) settleAgain(requests []store.Request) {
	for i := range requests {
		r := &requests[i]
		if r.Ends.Back == 0 {
			continue
		}
		b := bucketname.Of(r).Clone() // the key may be reused when the caller has its error
		go s.giveBack(store.NewRequest(b.Policy, b.Key, bucket.Request{Plan: r.Plan, Action: bucket.Refund, Ends: r.Ends}))
	}
}

// renewal is a call to the store that decides one request and brings a lease for those that follow.
type renewal struct {
	store   *Store
	shard   *shard
	key     *watchedKey
	request store.Request
	asked   time.Time

	done   chan struct{} // closed when those below are set
	answer store.Answer
	err    error

	// Guarded by the shard's mu:
	over bool // it is done
	left bool // its caller had left before
}

// wait returns the decision. A caller who leaves before there is one pays nothing.
func (n *renewal) wait(ctx context.Context) (store.Answer, error) {
	select {
	case <-n.done:
	case <-ctx.Done():
		n.shard.mu.Lock()
		n.left = !n.over
		n.shard.mu.Unlock()
		if n.left {
			return store.Answer{}, ctx.Err()
		}
		<-n.done // it is about to be closed
	}
	return n.answer, n.err
}

// run asks the store and keeps the lease that comes. What nobody wants is returned: the tokens of a caller who has left, and
// the lease of a key that was reset meanwhile.
func (n *renewal) run() {
	n.answer, n.err = n.store.Next.Do(context.Background(), n.request)
	back := n.key.refund
	n.shard.mu.Lock()
	n.take()
	if n.left && n.err == nil && n.answer.Allowed {
		back.N = n.request.N
	}
	if n.key != n.shard.keys[bucketname.Of(&n.request)] {
		back.Ends = n.key.end()
	}
	n.shard.mu.Unlock()
	close(n.done)
	if n.err != nil {
		n.store.settleAgain([]store.Request{n.request})
	}
	n.store.giveBack(back)
}

// take takes in what the call brought. The shard's mu is held.
func (n *renewal) take() {
	k, now := n.key, n.store.Now()
	waiting := k.waiting
	k.renewal, k.waiting, n.over = nil, 0, true
	if n.err != nil {
		k.size = 0 // what was taken without an answer is lost: begin small again
	}
	if n.err != nil || n.answer.Lent < n.request.More { // the bucket has nothing more to lease
		k.rest = now.Add(idle / 2)
	}
	switch {
	case n.err != nil || 2*waiting <= n.answer.Lent:
	case 2*waiting <= k.largest(n.store.most):
		k.size = waiting // the next lease has twice as many
	default:
		k.rest = now.Add(crowdRest)
	}
	if n.err != nil || n.answer.Lent == 0 {
		return
	}
	h := &lease{brought: n.answer, ticket: n.request.Ticket, asked: n.asked, left: n.answer.Lent, used: true}
	k.lease = h
	h.timer = time.AfterFunc(n.store.Idle, func() { n.lookAfter(h) })
	n.answer.Levels.Unshare()
	n.answer.Add(n.request.Plan, n.answer.Lent) // what is here is there for this process
}

// lookAfter returns h when nobody uses it, or when it is about to end.
func (n *renewal) lookAfter(h *lease) {
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	switch {
	case n.key.lease != h:
	case h.used && !h.over(n.store.Now().Add(margin)):
		h.used = false
		h.timer.Reset(n.store.Idle)
	default:
		back := n.key.refund
		back.Ends = n.key.end()
		go n.store.giveBack(back)
	}
}
