package core

import (
	"context"
	"time"
)

// renewal is a call to Redis that decides one request and brings a lease for those that follow.
type renewal struct {
	extra int64         // tokens that it may bring
	done  chan struct{} // closed when those below are set

	answer Answer
	err    error

	// Guarded by the shard's mu:
	decided bool // it is about to be done
	left    bool // nobody waits for its decision any more
}

// mayLease reports whether r may be decided on leased tokens.
func (s *RedisStore) mayLease(r *Request) bool {
	return s.leases.most > 0 && r.action == take && r.n > 0
}

// spend decides r in a on the lease of its key, if there is one that has enough.
func (s *RedisStore) spend(r *Request, a *Answer, now time.Time) (ok bool) {
	sh := s.leases.shard(r.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[entryKey{r.policy, r.key}]
	if k == nil || !k.serves(r) || !k.spend(r.n, a, now) {
		return false
	}
	sh.spent++
	return true
}

// decideOrLease has r decided by Redis: with a lease, if its key is busy.
func (s *RedisStore) decideOrLease(ctx context.Context, r Request) (a Answer, err error) {
	if s.leases.most == 0 {
		return s.ask(ctx, r)
	}
	switch {
	case s.mayLease(&r):
		return s.lease(ctx, r)
	case r.action == refund && s.refund(&r, &a):
		return a, nil
	}
	a, err = s.ask(ctx, r)
	if err == nil && r.action == take { // a peek: what is here is there for its process
		a.levels.add(r.plan, s.held(&r))
		a.Allowed = a.retryAfter(r.plan, r.n) == 0
	}
	return a, err
}

// lease decides r together with a new lease, on one that others wait for, or as if there were none.
func (s *RedisStore) lease(ctx context.Context, r Request) (a Answer, err error) {
	arrived := time.Now()
	renewal, own, settled := s.renew(ctx, r)
	if renewal != nil && !own && renewal.extra < r.n { // it needs what the lease is to bring, and more
		select {
		case <-renewal.done:
		case <-ctx.Done():
			return a, ctx.Err()
		}
		if renewal.err == nil {
			renewal, own, settled = s.renew(ctx, r)
		}
		if renewal != nil && !own {
			renewal, settled = nil, true
		}
	}
	if renewal == nil && !settled {
		return s.ask(ctx, r)
	}
	if renewal != nil {
		select {
		case <-renewal.done:
		case <-ctx.Done():
			if !own || s.leave(renewal, r.key) {
				return a, ctx.Err()
			}
			<-renewal.done // its tokens are taken
		}
		if own {
			return renewal.answer, renewal.err
		}
		if s.spend(&r, &a, s.now()) {
			return a, nil
		}
	}
	// It has waited for another call. All together takes no longer than one may.
	ctx, cancel := context.WithDeadline(ctx, arrived.Add(s.timeout))
	defer cancel()
	return s.ask(ctx, r)
}

// leave tells a renewal that nobody waits for its decision, unless that is made already.
func (s *RedisStore) leave(renewal *renewal, key string) (left bool) {
	sh := s.leases.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	renewal.left = !renewal.decided
	return renewal.left
}

// renew returns the renewal of r's lease that is under way, or begins its own. It returns nil when r is to be
// decided as if there were no leases; what was on lease for its key is settled then.
func (s *RedisStore) renew(ctx context.Context, r Request) (_ *renewal, own, settled bool) {
	sh, now := s.leases.shard(r.key), s.now()
	sh.mu.Lock()
	k := sh.watch(&r, now)
	if k == nil || k.renewal != nil {
		defer sh.mu.Unlock()
		if k == nil || !k.serves(&r) {
			return nil, false, false
		}
		return k.renewal, false, false
	}
	old := k.end()
	extra := k.next(&r, s.leases.most, now)
	if extra == 0 && (old == nil || old.plan != k.plan || r.within > 0) {
		sh.mu.Unlock()
		select {
		case <-s.settle(old):
		case <-ctx.Done():
		}
		return nil, false, old != nil
	}
	defer sh.mu.Unlock()
	k.renewal = &renewal{extra: extra, done: make(chan struct{})}
	r.key, r.plan, r.action, r.terms = k.key.key, k.plan, lease, &terms{}
	if old != nil {
		r.terms = old.terms
	}
	r.terms.extra = extra
	// Not in the caller's context, nor its goroutine: others wait too, and tokens that come must be kept.
	go s.fetch(context.WithoutCancel(ctx), sh, k, r, now)
	return k.renewal, true, false
}

// fetch has Redis answer the renewal r of k.
func (s *RedisStore) fetch(ctx context.Context, sh *leasesShard, k *watchedKey, r Request, asked time.Time) {
	answer, err := s.ask(ctx, r)
	sh.mu.Lock()
	renewal := k.renewal
	renewal.decided = true
	unwanted := renewal.left && err == nil && answer.Allowed
	if k.renewed(answer, err, r.terms.extra, asked, s.now()) {
		s.watchIdle(sh, k)
		if k.reset { // by a Reset, which may have forgotten this lease: what came back would be another's
			k.end()
		}
	}
	sh.mu.Unlock()
	if err == nil { // what is here is there for its process
		answer.levels = answer.levels.clone()
		answer.levels.add(r.plan, answer.lent)
	}
	renewal.answer, renewal.err = answer, err
	close(renewal.done)
	if unwanted { // who leaves pays nothing
		r.action, r.terms = refund, nil
		_, _ = s.ask(ctx, r)
	}
}

// watchIdle gives k's lease back when it is not used, or ends. sh.mu is held.
func (s *RedisStore) watchIdle(sh *leasesShard, k *watchedKey) {
	h := k.held
	h.timer = time.AfterFunc(s.leases.idle, func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		switch {
		case k.held != h:
		case h.used && s.now().Before(h.until.Add(-leaseMargin)):
			h.used = false
			h.timer.Reset(s.leases.idle)
		default:
			s.settle(k.end())
		}
	})
}

// settle ends a lease, nil is none, and tells when it is done. Best effort: Redis forgets it by itself.
func (s *RedisStore) settle(old *Request) (done <-chan struct{}) {
	settled := make(chan struct{})
	if old == nil {
		close(settled)
		return settled
	}
	go func() {
		defer close(settled)
		_, _ = s.ask(context.Background(), *old)
	}()
	return settled
}

// refund puts the tokens of r back on the lease they may be from, if all fit: a part could not be told from the
// whole if Redis failed for the rest.
func (s *RedisStore) refund(r *Request, a *Answer) (fits bool) {
	sh := s.leases.shard(r.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := sh.keys[entryKey{r.policy, r.key}]; k != nil && k.serves(r) {
		fits = k.refund(r.n, a, s.now())
	}
	if fits {
		s.denials.taken(r.policy, r.key) // a denial that counted without them is old
	}
	return fits
}

// held is how many tokens of r's key this process has on lease.
func (s *RedisStore) held(r *Request) int64 {
	sh := s.leases.shard(r.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[entryKey{r.policy, r.key}]
	if k == nil || k.held == nil || k.held.over(s.now()) {
		return 0
	}
	return k.held.left
}

// forget forgets a key that is reset, and returns the request that settles its lease: nil when there is none.
func (s *RedisStore) forget(policy, key string) (old *Request) {
	sh := s.leases.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := sh.keys[entryKey{policy, key}]; k != nil {
		old = k.end()
		k.reset = true
		delete(sh.keys, k.key)
	}
	return old
}
