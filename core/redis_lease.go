package core

import (
	"context"
	"time"
)

// maxRenewals is how many renewals of others a decision waits for before it asks by itself.
const maxRenewals = 2

// renewal is a call to Redis that decides one request and brings a lease for those that follow.
type renewal struct {
	done chan struct{} // closed when those below are set

	answer Answer
	err    error
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
	return k != nil && k.plan == r.plan && k.spend(r.n, a, now)
}

// decideOrLease has r decided by Redis: with a lease, if its key is busy.
func (s *RedisStore) decideOrLease(ctx context.Context, r Request) (Answer, error) {
	if s.mayLease(&r) {
		if a, ok, err := s.lease(ctx, r); ok {
			return a, err
		}
	}
	a, err := s.ask(ctx, r)
	if err == nil && r.action == take && r.n == 0 && s.leases.most > 0 {
		a.levels.add(r.plan, s.leases.held(&r))
	}
	return a, err
}

// lease decides r together with a new lease, or on one that others wait for. It returns false when r is to
// be decided as if there were no leases.
func (s *RedisStore) lease(ctx context.Context, r Request) (a Answer, ok bool, err error) {
	for range maxRenewals {
		renewal, own := s.renew(ctx, r)
		if renewal == nil {
			return a, false, nil
		}
		select {
		case <-renewal.done:
		case <-ctx.Done():
			return a, true, ctx.Err()
		}
		if own {
			return renewal.answer, true, renewal.err
		}
		if s.spend(&r, &a, s.now()) {
			return a, true, nil
		}
	}
	return a, false, nil
}

// renew returns the renewal of r's lease that is under way, or begins its own. It returns nil when r is to be
// decided as if there were no leases; what was on lease for its key is settled then.
func (s *RedisStore) renew(ctx context.Context, r Request) (_ *renewal, own bool) {
	sh, now := s.leases.shard(r.key), s.now()
	sh.mu.Lock()
	k := sh.watch(&r, now)
	if k == nil || k.renewal != nil {
		defer sh.mu.Unlock()
		if k == nil || k.plan != r.plan {
			return nil, false
		}
		return k.renewal, false
	}
	old := k.end()
	extra := k.next(&r, s.leases.most, now)
	if extra == 0 && (old == nil || old.plan != r.plan || r.within > 0) {
		sh.mu.Unlock()
		s.settle(ctx, old)
		return nil, false
	}
	defer sh.mu.Unlock()
	k.renewal = &renewal{done: make(chan struct{})}
	if old == nil {
		old = &Request{terms: &terms{}}
	}
	r.key, r.action, r.terms = k.key.key, lease, old.terms
	r.terms.extra = extra
	// Not in the caller's context, nor its goroutine: others wait too, and tokens that come must be kept.
	go s.fetch(context.WithoutCancel(ctx), sh, k, r, now)
	return k.renewal, true
}

// fetch has Redis answer the renewal r of k.
func (s *RedisStore) fetch(ctx context.Context, sh *leasesShard, k *keyLease, r Request, asked time.Time) {
	answer, err := s.ask(ctx, r)
	sh.mu.Lock()
	renewal := k.renewal
	k.renewed(answer, r.terms.extra, asked, s.now())
	var settled *Request
	switch {
	case k.dropped: // by a Reset, which this lease may be older than
		settled = k.end()
	case k.taken > 0:
		s.watchIdle(sh, k)
	}
	sh.mu.Unlock()
	answer.levels.add(r.plan, answer.leased) // what is here is there for its process
	renewal.answer, renewal.err = answer, err
	close(renewal.done)
	s.settle(ctx, settled)
}

// watchIdle gives k's lease back when it is not used, or ends. sh.mu is held.
func (s *RedisStore) watchIdle(sh *leasesShard, k *keyLease) {
	if k.timer != nil {
		k.timer.Reset(leaseIdle)
		return
	}
	k.timer = time.AfterFunc(leaseIdle, func() {
		sh.mu.Lock()
		if k.used && k.taken > 0 && s.now().Before(k.until.Add(-leaseMargin)) {
			k.used = false
			k.timer.Reset(leaseIdle)
			sh.mu.Unlock()
			return
		}
		old := k.end()
		sh.mu.Unlock()
		s.settle(context.Background(), old)
	})
}

// settle ends a lease; nil is none. Best effort: when its time is over Redis forgets it by itself.
func (s *RedisStore) settle(ctx context.Context, old *Request) {
	if old != nil {
		_, _ = s.ask(ctx, *old)
	}
}

// drop forgets the lease of a key that is reset: its tokens are in the full bucket.
func (l *leases) drop(policy, key string) {
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := sh.keys[entryKey{policy, key}]; k != nil {
		k.end()
		k.dropped = true
		delete(sh.keys, k.key)
	}
}

// held is how many tokens of r's key this process has on lease.
func (l *leases) held(r *Request) int64 {
	sh := l.shard(r.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := sh.keys[entryKey{r.policy, r.key}]; k != nil {
		return k.left
	}
	return 0
}
