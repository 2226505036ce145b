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
	// maxWatched bounds the keys that are watched for being busy. Others are decided as without leases.
	maxWatched = 1 << 16
)

// WithLease lets a RedisStore take tokens of busy keys ahead and decide in this process while they last:
// for a key so hot that one Redis is its ceiling. By default, and with 0, each decision asks Redis.
//
// A key that is asked for again within 50 ms leases tokens with its next decision: one at first, twice as
// many each time they are used up within 50 ms, at most n, a tenth of the smallest Capacity, and half of
// what the bucket has left. A lease that is not used for 100 to 200 ms is given back; at the latest it ends
// after 1 to 2 s.
//
// Nothing is ever admitted beyond the limits: leased tokens have left the bucket, and it does not fill up
// behind them while they may be used. The price is that they are parked: for up to 200 ms after
// its last request a process may hold up to n tokens that others could use, and those who were denied
// meanwhile may repeat that for as long as WithDenyCache says. Tokens are lost, until they refill, when a
// process ends with a lease, when a call that was to bring one is executed but gets no answer in time, when one
// is given back while Redis is away, and when a full bucket, or a step of a Stepped or Aligned limit, finds no
// room for what was used on a lease that is not settled yet. Up to 65,536 keys are watched for being busy.
//
// Decisions on leased tokens have the Source [FromLease] and cost no round trip and no allocation. Their
// Remaining is what the bucket had when the lease was taken, refilled, less what this process has used: of
// others' use it learns with the next lease. A Reset leaves other processes their leases. Limits of one name
// share their buckets, so where WithLimits gives a key widely different capacities, what the large ones lease
// may leave the small ones nothing.
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
	shards [leaseShards]leasesShard
}

type leasesShard struct {
	mu    sync.Mutex // guards all below, and what is in it; never held across I/O
	keys  map[entryKey]*watchedKey
	spent int64    // decisions on leases
	_     [48]byte // keeps two locks off one cache line
}

// watchedKey is a key that may be busy.
type watchedKey struct {
	key     entryKey
	plan    *plan
	asked   time.Time // when Redis was last asked
	size    int64     // of the next lease
	rest    time.Time // until then the bucket has nothing to lease
	held    *holding  // nil: nothing
	renewal *renewal  // under way, or nil
	reset   bool      // and so forgotten, maybe while a renewal was under way
}

// holding is a lease.
type holding struct {
	given Answer    // that brought it
	asked time.Time // not after the instant that given tells
	until time.Time
	left  int64 // tokens that nobody has used
	used  bool  // since the timer last looked
	timer *time.Timer
}

func (l *leases) shard(key string) *leasesShard {
	return &l.shards[maphash.String(l.seed, key)%leaseShards]
}

// watch begins to watch r's key, if it isn't yet: it returns nil when there is no room. mu is held.
func (sh *leasesShard) watch(r *Request, now time.Time) *watchedKey {
	key := entryKey{r.policy, r.key}
	if k := sh.keys[key]; k != nil {
		return k
	}
	// For each that comes up to two go, so that a spike of keys is forgotten as traffic goes on.
	looks := 2
	for key, k := range sh.keys {
		if looks--; looks < 0 {
			break
		}
		if k.renewal == nil && k.held == nil && now.Sub(k.asked) > leaseIdle {
			delete(sh.keys, key)
		}
	}
	if len(sh.keys) >= maxWatched/leaseShards {
		return nil
	}
	if sh.keys == nil {
		sh.keys = make(map[entryKey]*watchedKey)
	}
	key.key = strings.Clone(key.key) // it may be a view of a buffer that its owner reuses
	k := &watchedKey{key: key, plan: r.plan}
	sh.keys[key] = k
	return k
}

// serves reports whether a lease of k is one under r's limits. mu is held.
func (k *watchedKey) serves(r *Request) bool {
	return k.plan == r.plan || k.plan.packed == r.plan.packed
}

// spend takes n tokens of the lease, if it has them at now. a tells what the bucket has, as far as is known
// here, and what is left of the lease. mu is held.
func (k *watchedKey) spend(n int64, a *Answer, now time.Time) (ok bool) {
	h := k.held
	if h == nil || h.left < n || h.over(now) {
		return false
	}
	h.used = true
	h.left -= n
	h.tell(a, k.plan, now)
	return true
}

// refund puts n tokens back on the lease, if they fit. mu is held.
func (k *watchedKey) refund(n int64, a *Answer, now time.Time) (fits bool) {
	h := k.held
	if h == nil || n > h.given.lent-h.left || h.over(now) {
		return false
	}
	h.left += n
	h.tell(a, k.plan, now)
	return true
}

// over reports whether the time of h is: a clock that stepped back ends it too. mu is held.
func (h *holding) over(now time.Time) bool { return !now.Before(h.until) || now.Before(h.asked) }

// tell fills in a for what was decided on h: what the bucket has at now, as far as is known here, and what is
// left of h. mu is held.
func (h *holding) tell(a *Answer, p *plan, now time.Time) {
	*a = h.given
	a.Allowed, a.source = true, FromLease
	a.now += now.Sub(h.asked).Microseconds()
	a.levels = a.levels.clone()
	for i := range p.rates {
		rate, l := &p.rates[i], a.levels.at(i)
		*l = rate.refillTo(rate.room(h.given.lent), *l, a.now)
	}
	a.levels.add(p, h.left)
}

// next chooses how many tokens r's decision should lease beyond its cost: about what the key uses in
// leaseIdle, 0 while that is nothing. mu is held.
func (k *watchedKey) next(r *Request, most int64, now time.Time) (extra int64) {
	age := now.Sub(k.asked)
	k.asked = now
	if !k.serves(r) { // limits are given per request, and another tier's hold now
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

// end forgets the lease and returns the request that settles it: nil when there is none, or when none of its
// limits is left. The key may have come under other limits since. mu is held.
func (k *watchedKey) end() *Request {
	h := k.held
	if h == nil {
		return nil
	}
	k.held = nil
	h.timer.Stop()
	p := k.plan.forReturns()
	if p == nil {
		return nil
	}
	t := terms{taken: h.given.lent, at: floorTo(h.given.now, leaseWindow), back: h.left}
	return &Request{policy: k.key.policy, key: k.key.key, plan: p, varies: true, action: lease, terms: &t}
}

// renewed takes the answer to a renewal for extra tokens, which was asked at asked and came at now. It
// reports whether it brought a lease. mu is held.
func (k *watchedKey) renewed(a Answer, err error, extra int64, asked, now time.Time) bool {
	k.renewal = nil
	if err != nil {
		k.size = 0 // what was taken without an answer is lost: begin small again
	}
	if err != nil || a.lent < extra {
		k.rest = now.Add(leaseIdle / 2)
	}
	if err != nil || a.lent == 0 {
		return false
	}
	end := floorTo(a.now, leaseWindow) + 2*leaseWindow
	k.held = &holding{given: a, asked: asked, until: asked.Add(duration(end - a.now)), left: a.lent, used: true}
	return true
}
