package lease

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// renewal is a call to next that decides one request and takes a lease for the
// requests that follow. All others for the key wait until it is done.
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
	dropped    bool // the level has been changed meanwhile, so its lease is settled as soon as it comes
}

// wait returns the decision. If ctx ends before, run returns the tokens.
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

// run calls next and keeps the lease. It gives back the request's tokens if its
// caller stopped waiting, and the lease if the renewal was dropped meanwhile.
func (n *renewal) run() {
	n.answer, n.err = n.store.inBackground(n.request)
	back := n.key.refund
	n.shard.mu.Lock()
	n.complete()
	if n.callerDone && n.err == nil && n.answer.Allowed {
		back.N = n.request.N
	}
	if n.dropped && n.err == nil {
		n.key.end()
		back.Ends = n.key.ending
	}
	n.shard.mu.Unlock()
	close(n.done)
	n.store.settled(&n.request, n.err)
	n.store.giveBack(back)
}

// complete makes the leased tokens the lease of the key. The shard's mu is
// held.
func (n *renewal) complete() {
	k, now := n.key, n.store.now()
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
	if n.err != nil {
		return
	}
	k.ending = bucket.Ending{} // the renewal has settled it
	if n.answer.Lent == 0 {
		return
	}
	h := &lease{brought: n.answer, ticket: n.request.Ticket, asked: n.asked, left: n.answer.Lent, used: true}
	k.lease = h
	h.timer = time.AfterFunc(n.store.idle, func() { n.check(h) })
	n.answer.Levels.Unshare()
	n.answer.Add(n.request.Set, n.answer.Lent) // Remaining includes the leased tokens, because this process can use them
}

// check, which the lease's timer calls, gives h back if it was not used since
// the last check or is about to end.
func (n *renewal) check(h *lease) {
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	switch {
	case n.key.lease != h:
	case h.used && !h.over(n.store.now().Add(margin)):
		h.used = false
		h.timer.Reset(n.store.idle)
	default:
		n.key.end()
		go n.store.giveBack(n.key.settling())
	}
}
