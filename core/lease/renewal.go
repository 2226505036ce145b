package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// giveBack sends r, a refund, with the lease that it settles. It tries once: without it the lease ends by itself and the tokens
// refill.
func (s *Store) giveBack(r store.Request) {
	if r.Plan = r.Plan.ForRefund(r.Key()); r.Plan == nil || r.N == 0 && r.Ends.Ticket == 0 {
		return
	}
	_, _ = s.inBackground(r)
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

// settleAgain settles, in the background, the leases of requests whose call failed. It is right whether or not the call was
// executed: settling a lease a second time changes nothing.
func (s *Store) settleAgain(requests []store.Request) {
	for i := range requests {
		r := &requests[i]
		if r.Ends.Back == 0 || r.Ends.Ticket >= bucket.FirstReturning { // no lease
			continue
		}
		back := r.Clone() // the caller may reuse the key's memory once it has the error
		back.Request = bucket.Request{Plan: r.Plan, Action: bucket.Refund, Ends: r.Ends}
		go s.giveBack(back)
	}
}

// renewal is a call to next that decides one request and takes a lease for the requests that follow. All others for the key wait
// until it is done.
type renewal struct {
	store   *Store
	shard   *shard
	key     *watchedKey
	request store.Request
	asked   time.Time

	done   chan struct{} // closed when answer and err are set
	answer store.Answer
	err    error

	// Guarded by the shard's mu:
	over       bool // it is done
	callerDone bool // its caller stopped waiting before that
}

// wait returns the decision. A caller whose ctx ends before gets an error, and run returns its tokens.
func (n *renewal) wait(ctx context.Context) (store.Answer, error) {
	select {
	case <-n.done:
	case <-ctx.Done():
		n.shard.mu.Lock()
		n.callerDone = !n.over
		n.shard.mu.Unlock()
		if n.callerDone {
			return store.Answer{}, ctx.Err()
		}
		<-n.done // run is about to close it
	}
	return n.answer, n.err
}

// run calls next and keeps the lease. It gives back what is not wanted any more: the request's tokens if its caller stopped
// waiting, and the lease if the key was reset meanwhile.
func (n *renewal) run() {
	n.answer, n.err = n.store.inBackground(n.request)
	back := n.key.refund
	n.shard.mu.Lock()
	n.complete()
	if n.callerDone && n.err == nil && n.answer.Allowed {
		back.N = n.request.N
	}
	if n.key != n.shard.keys[n.request.Hash()] {
		back.Ends = n.key.end()
	}
	n.shard.mu.Unlock()
	close(n.done)
	if n.err != nil {
		n.store.settleAgain([]store.Request{n.request})
	}
	n.store.giveBack(back)
}

// complete makes the leased tokens the lease of the key. The shard's mu is held.
func (n *renewal) complete() {
	k, now := n.key, n.store.Now()
	waiting := k.waiting
	k.renewal, k.waiting, n.over = nil, 0, true
	if n.err != nil {
		k.size = 0 // tokens that were leased without an answer are lost: begin with small leases again
	}
	if n.err != nil || n.answer.Lent < n.request.More { // the bucket has nothing more to lease
		k.rest = now.Add(idle / 2)
	}
	switch {
	case n.err != nil || 2*waiting <= n.answer.Lent:
	case waiting <= k.largest(n.store.most):
		k.size = waiting // the next lease has twice as many
	default:
		k.rest = now.Add(crowdRest)
	}
	if n.err != nil || n.answer.Lent == 0 {
		return
	}
	h := &lease{brought: n.answer, ticket: n.request.Ticket, asked: n.asked, left: n.answer.Lent, used: true}
	k.lease = h
	h.timer = time.AfterFunc(n.store.Idle, func() { n.check(h) })
	n.answer.Levels.Unshare()
	n.answer.Add(n.request.Plan, n.answer.Lent) // Remaining includes the leased tokens, because this process can use them
}

// check, which the lease's timer calls, gives h back if it was not used since the last check or is about to end.
func (n *renewal) check(h *lease) {
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
