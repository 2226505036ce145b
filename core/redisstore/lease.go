package redisstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

const (
	// leaseShare: a lease is at most this part of the smallest Capacity.
	leaseShare = 10
	// leaseIdle is for how long an unused lease stays here, and what a lease should last a busy key.
	leaseIdle = 100 * time.Millisecond
	// leaseMargin is how long before its end a lease is returned, used or not.
	leaseMargin = 300 * time.Millisecond
	// leaseShards keeps goroutines apart.
	leaseShards = 16
	// maxWatched bounds the keys that are watched for being busy. Others are decided as without leases.
	maxWatched = 1 << 16
)

// leases are what this process knows of busy keys.
type leases struct {
	flights *flights
	denials *denyCache // that returned tokens end
	now     func() time.Time

	most   int64         // tokens on one lease; 0: none
	idle   time.Duration // leaseIdle, but in tests
	shards [leaseShards]leaseShard
}

type leaseShard struct {
	mu    sync.Mutex // guards all below, and what is in it; never held across I/O
	keys  map[bucketOf]*watchedKey
	spent int64    // decisions on leases
	_     [48]byte // keeps two locks off one cache line
}

// watchedKey is a key that may be busy. Its leases are of one plan: the first that was asked for.
type watchedKey struct {
	refund  core.Request // of nothing: the form in which its leases are settled
	asked   time.Time    // when Redis was last asked
	size    int64        // of the next lease
	rest    time.Time    // until then the bucket has nothing to lease
	lease   *lease       // nil: none
	renewal *renewal     // under way; nil: none
}

// lease is tokens that this process has taken ahead.
type lease struct {
	given  core.Answer // that brought them
	ticket int64
	asked  time.Time // not after the instant of given
	left   int64     // tokens that nobody has used
	used   bool      // since the timer last looked
	timer  *time.Timer
}

// spend decides r in a on the lease of its key, if it has enough tokens.
func (l *leases) spend(r *core.Request, a *core.Answer, now time.Time) (ok bool) {
	if l.most == 0 || !leasable(r) || r.Action != bucket.Take && r.Action != bucket.Refund {
		return false
	}
	b := of(r)
	sh := l.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[b]
	if k == nil || k.refund.Plan != r.Plan {
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

// use takes n tokens of h, or puts back -n of those that were taken. a becomes what the bucket has at now, as far as
// this process knows, and what is left of h. The shard's mu is held.
func (h *lease) use(n int64, a *core.Answer, p *bucket.Plan, now time.Time) (ok bool) {
	if h == nil || n > h.left || h.left-n > h.given.Lent || h.over(now) {
		return false
	}
	h.used = true
	h.left -= n
	*a = h.given
	a.Allowed, a.Source, a.Waits = true, core.FromLease, nil
	a.Levels.Unshare()
	a.AgeAround(p, h.given.Lent, now.Sub(h.asked).Microseconds())
	a.Add(p, h.left)
	return true
}

// over reports whether h has ended. A clock that stepped back ends it too. The shard's mu is held.
func (h *lease) over(now time.Time) bool {
	return now.Before(h.asked) || now.Sub(h.asked) >= bucket.LeaseLife*time.Microsecond
}

// askOrLease has r, which no lease serves, decided by Redis. If its key is busy the call also brings a lease, and others
// who ask meanwhile wait for that.
func (l *leases) askOrLease(ctx context.Context, r core.Request) (a core.Answer, err error) {
	if l.most == 0 || !r.Takes() {
		return l.flights.ask(ctx, r)
	}
	arrived := time.Now()
	for first := true; ; first = false {
		step, n := l.choose(&r)
		switch step {
		case ask:
			a, err = l.flights.ask(ctx, r)
			if err != nil {
				l.settleAgain([]core.Request{r})
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
			case <-n.landed:
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
func (l *leases) settle(ctx context.Context, requests []core.Request) error {
	for i := range requests {
		if n := l.look(&requests[i], false); n != nil {
			select {
			case <-n.landed:
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

// settleAgain settles the leases that requests were to settle, in the background. Their call had no answer, or was not sent.
// Who settles a lease a second time changes nothing.
func (l *leases) settleAgain(requests []core.Request) {
	for i := range requests {
		r := &requests[i]
		if r.Ends.Back == 0 {
			continue
		}
		b := of(r).clone() // the key may be reused when the caller has its error
		go l.giveBack(core.NewRequest(b.policy, b.key, bucket.Request{Plan: r.Plan, Action: bucket.Refund, Ends: r.Ends}))
	}
}

// look returns the renewal of r's key that is under way. If there is none and r is to settle the lease, it does.
func (l *leases) look(r *core.Request, settles bool) *renewal {
	b := of(r)
	sh := l.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[b]
	if k == nil || k.refund.Plan != r.Plan {
		return nil
	}
	if k.renewal == nil && settles {
		r.Ends = k.end()
	}
	return k.renewal
}

// leaseStep is what a request does next that no lease serves.
type leaseStep int

const (
	ask  leaseStep = iota // Redis, by itself; the request settles the lease of its key
	join                  // wait for a renewal that is under way, and try its lease
	lead                  // wait for a renewal that decides this very request
)

// choose chooses the next step of r, and starts the renewal that r leads.
func (l *leases) choose(r *core.Request) (leaseStep, *renewal) {
	b := of(r)
	sh := l.shard(b)
	now := l.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.watch(b, r, now)
	if k == nil || k.refund.Plan != r.Plan { // watched under another plan
		return ask, nil
	}
	if k.renewal != nil {
		return join, k.renewal
	}
	r.Ends = k.end()
	if r.Action != bucket.Take || !leasable(r) {
		return ask, nil
	}
	extra := k.next(l.most, now)
	if extra == 0 {
		return ask, nil
	}
	n := &renewal{leases: l, shard: sh, key: k, request: k.refund, asked: now, landed: make(chan struct{})}
	n.request.Request = bucket.Request{
		Plan: r.Plan, Action: bucket.Lease, N: r.N, More: extra, Ticket: bucket.FirstLease + rand.Int64N(bucket.FirstLease), Ends: r.Ends,
	}
	k.renewal = n
	// It runs neither in the caller's context nor in its goroutine: others wait too, and tokens that come must be kept.
	go n.run()
	return lead, n
}

// renewal is a call to Redis that decides one request and brings a lease for those that follow.
type renewal struct {
	leases  *leases
	shard   *leaseShard
	key     *watchedKey
	request core.Request
	asked   time.Time

	landed chan struct{} // closed when those below are set
	answer core.Answer
	err    error

	// Guarded by the shard's mu:
	over bool // it has landed
	left bool // its caller had left before
}

// wait returns the decision. A caller who leaves before there is one pays nothing.
func (n *renewal) wait(ctx context.Context) (core.Answer, error) {
	select {
	case <-n.landed:
	case <-ctx.Done():
		n.shard.mu.Lock()
		n.left = !n.over
		n.shard.mu.Unlock()
		if n.left {
			return core.Answer{}, ctx.Err()
		}
		<-n.landed // it is about to be closed
	}
	return n.answer, n.err
}

// run asks Redis and keeps the lease that comes. What nobody wants is returned: the tokens of a caller who has left, and
// the lease of a key that was reset meanwhile.
func (n *renewal) run() {
	n.answer, n.err = n.leases.flights.ask(context.Background(), n.request)
	back := n.key.refund
	n.shard.mu.Lock()
	n.land()
	if n.left && n.err == nil && n.answer.Allowed {
		back.N = n.request.N
	}
	if n.key != n.shard.keys[of(&n.request)] {
		back.Ends = n.key.end()
	}
	n.shard.mu.Unlock()
	close(n.landed)
	if n.err != nil {
		n.leases.settleAgain([]core.Request{n.request})
	}
	n.leases.giveBack(back)
}

// land takes in what the call brought. The shard's mu is held.
func (n *renewal) land() {
	k, now := n.key, n.leases.now()
	k.renewal, n.over = nil, true
	if n.err != nil {
		k.size = 0 // what was taken without an answer is lost: begin small again
	}
	if n.err != nil || n.answer.Lent < n.request.More { // the bucket has nothing more to lease
		k.rest = now.Add(leaseIdle / 2)
	}
	if n.err != nil || n.answer.Lent == 0 {
		return
	}
	h := &lease{given: n.answer, ticket: n.request.Ticket, asked: n.asked, left: n.answer.Lent, used: true}
	k.lease = h
	h.timer = time.AfterFunc(n.leases.idle, func() { n.lookAfter(h) })
	n.answer.Levels.Unshare()
	n.answer.Add(n.request.Plan, n.answer.Lent) // what is here is there for this process
}

// lookAfter returns h when nobody uses it, or when it is about to end.
func (n *renewal) lookAfter(h *lease) {
	n.shard.mu.Lock()
	defer n.shard.mu.Unlock()
	switch {
	case n.key.lease != h:
	case h.used && !h.over(n.leases.now().Add(leaseMargin)):
		h.used = false
		h.timer.Reset(n.leases.idle)
	default:
		back := n.key.refund
		back.Ends = n.key.end()
		go n.leases.giveBack(back)
	}
}

// giveBack returns the tokens of r, a refund, and of the lease it ends. It tries once: Redis forgets a lease by itself,
// and tokens refill.
func (l *leases) giveBack(r core.Request) {
	if r.Plan = r.Plan.ForRefund(r.Key()); r.Plan == nil || r.N == 0 && r.Ends.Ticket == 0 {
		return
	}
	_, _ = l.flights.ask(context.Background(), r)
}

// forget stops watching a key, and returns the refund that settles its lease: nil if it was not watched.
func (l *leases) forget(b bucketOf) (back *core.Request) {
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

// watch returns the watched key of r. It begins to watch it if need be, and returns nil when there is no room. mu is
// held.
func (sh *leaseShard) watch(b bucketOf, r *core.Request, now time.Time) *watchedKey {
	if k := sh.keys[b]; k != nil && (k.refund.Plan == r.Plan || k.busy(now)) {
		return k
	}
	// For each key that comes up to two go, so that a spike of keys is forgotten as traffic goes on.
	looks := 2
	for other, k := range sh.keys {
		if looks--; looks < 0 {
			break
		}
		if !k.busy(now) {
			delete(sh.keys, other)
		}
	}
	if len(sh.keys) >= maxWatched/leaseShards {
		return nil
	}
	if sh.keys == nil {
		sh.keys = make(map[bucketOf]*watchedKey)
	}
	b = b.clone()
	k := &watchedKey{refund: core.NewRequest(b.policy, b.key, bucket.Request{Plan: r.Plan, Action: bucket.Refund})}
	sh.keys[b] = k
	return k
}

// busy reports whether k must stay watched under its plan. The shard's mu is held.
func (k *watchedKey) busy(now time.Time) bool {
	return k.renewal != nil || k.lease != nil || now.Sub(k.asked) <= leaseIdle
}

// end forgets the lease and returns what settles it. The shard's mu is held.
func (k *watchedKey) end() (settles bucket.Ending) {
	h := k.lease
	if h == nil {
		return bucket.Ending{}
	}
	k.lease = nil
	h.timer.Stop()
	return bucket.Ending{Ticket: h.ticket, Back: h.left}
}

// next chooses how many tokens a decision should lease beyond its cost: about what the key uses in leaseIdle, and 0
// while that is nothing. The shard's mu is held.
func (k *watchedKey) next(most int64, now time.Time) (extra int64) {
	age := now.Sub(k.asked)
	k.asked = now
	switch {
	case age < leaseIdle/2:
		k.size = max(1, 2*k.size)
	case age > 2*leaseIdle:
		k.size /= 2
	}
	k.size = min(k.size, most, k.refund.Plan.LeastCapacity()/leaseShare)
	if now.Before(k.rest) {
		return 0
	}
	return k.size
}

// leasable reports whether r may use tokens on lease: limits that count something else, or are aligned to a calendar, are
// decided by the server each time.
func leasable(r *core.Request) bool { return r.N > 0 && r.Each == nil && !r.Dry && r.Plan.Plain }
