package core

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// leaseShare: a lease is at most this part of the smallest Capacity.
	leaseShare = 10
	// leaseIdle is for how long an unused lease stays here, and what a lease should last a busy key.
	leaseIdle = 100 * time.Millisecond
	// leaseMargin is how long before its end a lease is given back, used or not.
	leaseMargin = 300 * time.Millisecond
	// leaseShards keeps goroutines apart.
	leaseShards = 16
	// maxWatched bounds the keys that are watched for being busy. Others are decided as without leases.
	maxWatched = 1 << 16
)

// WithLease lets a RedisStore take tokens of busy keys ahead and decide in this process while they last:
// for a key that is asked for more often than one Redis can decide. By default, and with 0, each decision asks
// Redis.
//
// A key that is asked for again within 50 ms leases tokens with its next decision: one at first, twice as
// many each time they are used up within 50 ms, at most n, a tenth of the smallest Capacity, and half of
// what the bucket has left. A lease that is not used for 100 to 200 ms is given back. It ends after 2 s.
//
// Leases admit nothing beyond the limits: leased tokens have left the bucket, and it does not refill behind them
// until the lease has ended. The price is that they are parked: for up to 200 ms after its last request, or 2 s
// when it dies, a process may hold up to n tokens that others could use. RetryAfter counts on the end of
// leases. Tokens are lost, until they refill, when a process ends with a lease and when the call that brings or
// settles one gets no answer.
//
// Leases are for Allow and AllowN, of one list of limits a key: while one is held, requests under other limits
// are decided by Redis as if it were another process's. Peek, Reserve, Wait and requests that cost more than is
// left of the lease settle it with their call. Up to 65,536 keys are watched for being busy.
//
// Decisions on leased tokens have the Source [FromLease] and cost no round trip and no allocation. Their
// Remaining is what the bucket had when the lease was taken, refilled, less what this process has used: of
// others' use it learns with the next lease. A Reset leaves other processes their leases.
func WithLease(n int64) RedisOption {
	return redisOption(func(s *RedisStore) {
		if n < 0 {
			s.errs = append(s.errs, &ConfigError{"WithLease", n, "must not be negative"})
			return
		}
		s.leases.most = n
	})
}

// leases are what this process knows of busy keys. Its zero value leases nothing.
type leases struct {
	most   int64
	idle   time.Duration // leaseIdle, but in tests
	seed   maphash.Seed
	shards [leaseShards]leaseShard
}

type leaseShard struct {
	mu    sync.Mutex // guards all below, and what is in it; never held across I/O
	keys  map[entryKey]*watchedKey
	spent int64    // decisions on leases
	_     [48]byte // keeps two locks off one cache line
}

// watchedKey is a key that may be busy. Its lease is one under its plan: the first that was asked for.
type watchedKey struct {
	plan    *plan
	asked   time.Time     // when Redis was last asked
	size    int64         // of the next lease
	rest    time.Time     // until then the bucket has nothing to lease
	held    *leased       // nil: nothing
	renewal chan struct{} // closed when the call has landed that is to bring a lease; nil: none is under way
}

// leased is tokens that this process has on lease.
type leased struct {
	given  Answer // that brought them
	ticket int64
	asked  time.Time // not after the instant that given tells
	left   int64     // tokens that nobody has used
	used   bool      // since the timer last looked
	timer  *time.Timer
}

// shard returns where a key is watched, and as what.
func (l *leases) shard(r *Request) (*leaseShard, entryKey) {
	return &l.shards[maphash.String(l.seed, r.key)%leaseShards], entryKey{r.policy, r.key}
}

// watch begins to watch a key, if it isn't yet: it returns nil when there is no room. mu is held.
func (sh *leaseShard) watch(key entryKey, p *plan, now time.Time) *watchedKey {
	if k := sh.keys[key]; k != nil && (k.plan == p || k.busy(now)) {
		return k
	}
	// For each that comes up to two go, so that a spike of keys is forgotten as traffic goes on.
	looks := 2
	for key, k := range sh.keys {
		if looks--; looks < 0 {
			break
		}
		if !k.busy(now) {
			delete(sh.keys, key)
		}
	}
	if len(sh.keys) >= maxWatched/leaseShards {
		return nil
	}
	if sh.keys == nil {
		sh.keys = make(map[entryKey]*watchedKey)
	}
	k := &watchedKey{plan: p}
	sh.keys[key.clone()] = k
	return k
}

// busy reports whether k must stay watched under its plan. mu is held.
func (k *watchedKey) busy(now time.Time) bool {
	return k.renewal != nil || k.held != nil || now.Sub(k.asked) <= leaseIdle
}

// end forgets the lease and returns what settles it. mu is held.
func (k *watchedKey) end() (settles ending) {
	h := k.held
	if h == nil {
		return ending{}
	}
	k.held = nil
	h.timer.Stop()
	return ending{h.ticket, h.left}
}

// next chooses how many tokens a decision should lease beyond its cost: about what the key uses in leaseIdle, 0
// while that is nothing. mu is held.
func (k *watchedKey) next(most int64, now time.Time) (extra int64) {
	age := now.Sub(k.asked)
	k.asked = now
	most = min(most, k.plan.leastCapacity()/leaseShare)
	switch {
	case age < leaseIdle/2:
		k.size = max(1, 2*k.size)
	case age > 2*leaseIdle:
		k.size /= 2
	}
	k.size = min(k.size, most)
	if now.Before(k.rest) {
		return 0
	}
	return k.size
}

// over reports whether the time of h is: a clock that stepped back ends it too. mu is held.
func (h *leased) over(now time.Time) bool {
	return now.Before(h.asked) || now.Sub(h.asked) >= leaseLife*time.Microsecond
}

// use takes n tokens of h, or puts back -n of those that were taken. a tells what the bucket has at now, as far
// as is known here, and what is left of h. mu is held.
func (h *leased) use(n int64, a *Answer, p *plan, now time.Time) (ok bool) {
	if h == nil || n > h.left || h.left-n > h.given.lent || h.over(now) {
		return false
	}
	h.used = true
	h.left -= n
	*a = h.given
	a.Allowed, a.source, a.waits = true, FromLease, nil
	a.now += now.Sub(h.asked).Microseconds()
	a.levels = a.levels.clone()
	for i := range p.rates {
		rate, l := &p.rates[i], a.levels.at(i)
		*l = rate.refill(*l, h.given.lent, a.now)
	}
	a.levels.add(p, h.left)
	return true
}

// spend decides r in a on the lease of its key, if there is one that has enough.
func (s *RedisStore) spend(r *Request, a *Answer, now time.Time) (ok bool) {
	if s.leases.most == 0 || r.n == 0 || r.action != take && r.action != refund {
		return false
	}
	sh, key := s.leases.shard(r)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[key]
	if k == nil || k.plan != r.plan {
		return false
	}
	if r.action == refund {
		if ok = r.ends.ticket == 0 && k.held.use(-r.n, a, k.plan, now); ok {
			s.denials.taken(r.policy, r.key) // a denial that counted without them is old
		}
		return ok
	}
	if ok = k.held.use(r.n, a, k.plan, now); ok {
		sh.spent++
	}
	return ok
}

// forget forgets a key that is reset, and returns its lease and the limits it was taken from. With the key goes the
// hold in Redis.
func (s *RedisStore) forget(policy, key string) (p *plan, unused ending) {
	sh, k := s.leases.shard(&Request{policy: policy, key: key})
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if watched := sh.keys[k]; watched != nil {
		delete(sh.keys, k)
		return watched.plan, watched.end()
	}
	return nil, ending{}
}
