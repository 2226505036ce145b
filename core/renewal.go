package core

import (
	"context"
	"math/rand/v2"
	"time"
)

// decideOrLease has r decided by Redis. If its key is busy, the call brings a lease.
func (s *RedisStore) decideOrLease(ctx context.Context, r Request) (a Answer, err error) {
	if s.leases.most == 0 || !r.takes() {
		return s.ask(ctx, r)
	}
	arrived, joined := time.Now(), false
	for {
		renewal, led := s.joinOrLead(&r)
		switch {
		case led != nil:
			return led.wait(ctx)
		case renewal == nil:
			return s.ask(ctx, r)
		}
		if !joined { // all together takes no longer than one decision may
			joined = true
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, arrived.Add(s.timeout))
			defer cancel()
		}
		select {
		case <-renewal:
		case <-ctx.Done():
			return a, ctx.Err()
		}
		if s.spend(&r, &a, s.now()) {
			return a, nil
		}
	}
}

// joinOrLead is the next step for r, which no lease serves. It returns the renewal under way, to join; or the one
// that it began with r's decision, to wait for; or neither: then r, which settles what was on lease, goes by itself.
func (s *RedisStore) joinOrLead(r *Request) (join <-chan struct{}, led *renewal) {
	sh, key := s.leases.shard(r)
	now := s.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.watch(key, r.plan, now)
	switch {
	case k == nil || k.plan != r.plan:
		return nil, nil
	case k.renewal != nil:
		return k.renewal, nil
	}
	r.ends = k.end()
	if r.action != take || r.n == 0 {
		return nil, nil
	}
	extra := k.next(s.leases.most, now)
	if extra == 0 {
		return nil, nil
	}
	k.renewal = make(chan struct{})
	led = &renewal{store: s, shard: sh, key: key.clone(), watched: k, request: *r, asked: now, done: make(chan struct{})}
	led.request.key = led.key.key
	led.request.action, led.request.more, led.request.ticket = lease, extra, firstLease+rand.Int64N(firstLease)
	// Not in the caller's context, nor in its goroutine: others wait too, and tokens that come must be kept.
	go led.run()
	return nil, led
}

// renewal is a call to Redis that decides one request and brings a lease for those that follow.
type renewal struct {
	store   *RedisStore
	shard   *leaseShard
	key     entryKey
	watched *watchedKey
	request Request
	asked   time.Time

	done   chan struct{} // closed when those below are set
	answer Answer
	err    error

	// Guarded by the shard's mu:
	landed bool
	left   bool // before it landed its caller did
}

// wait returns the decision. A caller who leaves before there is one pays nothing.
func (n *renewal) wait(ctx context.Context) (Answer, error) {
	select {
	case <-n.done:
	case <-ctx.Done():
		n.shard.mu.Lock()
		n.left = !n.landed
		n.shard.mu.Unlock()
		if n.left {
			return Answer{}, ctx.Err()
		}
		<-n.done // it is there already
	}
	return n.answer, n.err
}

// run has Redis answer n and keeps the lease that comes, unless its key was reset meanwhile.
func (n *renewal) run() {
	n.answer, n.err = n.store.ask(context.Background(), n.request)
	back, unused := int64(0), ending{}
	n.shard.mu.Lock()
	n.land()
	if n.left && n.err == nil && n.answer.Allowed {
		back = n.request.n
	}
	if n.watched != n.shard.keys[n.key] {
		unused = n.watched.end()
	}
	n.shard.mu.Unlock()
	close(n.done)
	n.store.giveBack(n.key, n.request.plan, back, unused)
}

// land takes in what the call brought, and lets those go on who joined it. mu is held.
func (n *renewal) land() {
	k, s, now := n.watched, n.store, n.store.now()
	close(k.renewal)
	k.renewal, n.landed = nil, true
	if n.err != nil {
		k.size = 0 // what was taken without an answer is lost: begin small again
	}
	if n.err != nil || n.answer.lent < n.request.more {
		k.rest = now.Add(leaseIdle / 2)
	}
	if n.err != nil || n.answer.lent == 0 {
		return
	}
	h := &leased{given: n.answer, ticket: n.request.ticket, asked: n.asked, left: n.answer.lent, used: true}
	k.held = h
	h.timer = time.AfterFunc(s.leases.idle, func() { n.lookAfter(h) })
	n.answer.levels = n.answer.levels.clone()
	n.answer.levels.add(k.plan, n.answer.lent) // what is here is there for its process
}

// lookAfter gives the lease h back when nobody uses it, or when it is about to end.
func (n *renewal) lookAfter(h *leased) {
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	switch {
	case n.watched.held != h:
	case h.used && !h.over(n.store.now().Add(leaseMargin)):
		h.used = false
		h.timer.Reset(n.store.leases.idle)
	default:
		go n.store.giveBack(n.key, n.request.plan, 0, n.watched.end())
	}
}

// giveBack gives back tokens that were taken under p, and what is unused of a lease. Best effort: Redis forgets a
// lease by itself, and tokens refill.
func (s *RedisStore) giveBack(key entryKey, p *plan, tokens int64, unused ending) {
	if p = p.refundPlan(); p == nil || tokens == 0 && unused.ticket == 0 {
		return
	}
	r := Request{policy: key.policy, key: key.key, plan: p, action: refund, n: tokens, ends: unused}
	_, _ = s.ask(context.Background(), r)
}
