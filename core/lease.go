package core

import (
	"hash/maphash"
	"strings"
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
	// maxLeased bounds the keys that are watched for being busy. Others are decided as without leases.
	maxLeased = 1 << 16
)

// WithLease lets a RedisStore take tokens of busy keys ahead and decide in this process while they last:
// for a key so hot that one Redis is its ceiling. By default, and with 0, each decision asks Redis.
//
// A key that is asked for again within 50 ms leases tokens with its next decision: one at first, twice as
// many each time they are used up within 50 ms, at most n, a tenth of the smallest Capacity, and half of
// what the bucket has left. A lease that is not used for 100 to 200 ms is given back; at the latest it ends
// after 1 to 2 s, and a process that dies with one delays the bucket's being full by no more.
//
// Nothing is ever admitted beyond the limits: tokens on lease have left the bucket, and still count
// towards its Capacity, so that it doesn't fill up behind them. The price is that they are parked: for up
// to 200 ms after its last request, a process may hold up to n tokens that others could use.
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
	seed   maphash.Seed
	shards [leaseShards]leasesShard
}

type leasesShard struct {
	mu   sync.Mutex // guards all below and the keyLeases in it; never held across I/O
	keys map[entryKey]*keyLease
	_    [48]byte // keeps two locks off one cache line
}

// keyLease is one key, and the lease on it if taken is not 0.
type keyLease struct {
	key   entryKey
	plan  *plan
	asked time.Time // when Redis was last asked
	size  int64     // of the next lease
	rest  time.Time // until then the bucket has nothing to lease

	taken, left int64     // tokens of the lease, and those not used yet
	until       time.Time // its end
	answer      Answer    // of Redis, when it gave the lease
	heard       time.Time // when that came
	used        bool      // since the timer last looked
	timer       *time.Timer

	renewal *renewal // under way, or nil
	dropped bool     // by a Reset, maybe while a renewal was under way
}

func (l *leases) shard(key string) *leasesShard {
	return &l.shards[maphash.String(l.seed, key)%leaseShards]
}

// watch begins to watch r's key, if it isn't yet: it returns nil when there is no room. mu is held.
func (sh *leasesShard) watch(r *Request, now time.Time) *keyLease {
	key := entryKey{r.policy, r.key}
	if k := sh.keys[key]; k != nil {
		return k
	}
	if len(sh.keys) >= maxLeased/leaseShards && !sh.makeRoom(now) {
		return nil
	}
	if sh.keys == nil {
		sh.keys = make(map[entryKey]*keyLease)
	}
	key.key = strings.Clone(key.key) // it may be a view of a buffer that its owner reuses
	k := &keyLease{key: key, plan: r.plan}
	sh.keys[key] = k
	return k
}

// makeRoom forgets a key that isn't busy, if a look at a few finds one. mu is held.
func (sh *leasesShard) makeRoom(now time.Time) bool {
	looks := 8
	for key, k := range sh.keys {
		if looks--; looks < 0 {
			break
		}
		if k.renewal == nil && k.taken == 0 && now.Sub(k.asked) > leaseIdle {
			delete(sh.keys, key)
			return true
		}
	}
	return false
}

// spend takes n tokens of the lease, if it has them at now. mu is held.
//
// a tells what the bucket has, as far as is known here, and what is left of the lease.
func (k *keyLease) spend(n int64, a *Answer, now time.Time) (ok bool) {
	if k.left < n || !now.Before(k.until) || now.Before(k.heard) {
		return false
	}
	k.left -= n
	k.used = true
	*a = k.answer
	a.levels = a.levels.clone()
	a.source = FromLease
	a.now += now.Sub(k.heard).Microseconds()
	for i := range k.plan.rates {
		rate, l := &k.plan.rates[i], a.levels.at(i)
		*l = rate.refill(*l, a.now)
		l.units = min(l.units, rate.room(k.taken)) + k.left*rate.unit
	}
	return true
}

// next chooses how many tokens r's decision should lease beyond its cost: about what the key uses in
// leaseIdle, 0 while that is nothing. mu is held.
func (k *keyLease) next(r *Request, most int64, now time.Time) (extra int64) {
	age := now.Sub(k.asked)
	k.asked = now
	if k.plan != r.plan { // limits are given per request, and another tier's hold now
		k.plan, k.size = r.plan, 0
		return 0
	}
	for _, l := range k.plan.limits {
		most = min(most, l.Capacity/leaseShare)
	}
	switch {
	case age < leaseIdle/2:
		k.size = max(1, 2*k.size)
	case age > 2*leaseIdle:
		k.size /= 2
	}
	k.size = min(k.size, most)
	if r.within > 0 || now.Before(k.rest) {
		return 0
	}
	return k.size
}

// end forgets the lease and returns the request that settles it: nil when there is none. mu is held.
func (k *keyLease) end() *Request {
	if k.taken == 0 {
		return nil
	}
	t := terms{taken: k.taken, at: floorTo(k.answer.now, leaseWindow), back: k.left}
	k.taken, k.left = 0, 0
	return &Request{policy: k.key.policy, key: k.key.key, plan: k.plan, action: lease, terms: &t}
}

// renewed takes the answer to a renewal for extra tokens. mu is held.
func (k *keyLease) renewed(a Answer, extra int64, asked, heard time.Time) {
	k.renewal = nil
	if a.leased < extra {
		k.rest = heard.Add(leaseIdle / 2)
	}
	if a.leased == 0 {
		return
	}
	k.taken, k.left, k.used = a.leased, a.leased, true
	k.answer, k.heard = a, heard
	end := floorTo(a.now, leaseWindow) + 2*leaseWindow
	k.until = asked.Add(duration(end - a.now)) // asked is not after the instant that a.now tells
}
