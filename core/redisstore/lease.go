package redisstore

import (
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
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

type leaseShard struct {
	mu    sync.Mutex // guards all below, and what is in it; never held across I/O
	keys  map[bucketOf]*watchedKey
	spent int64    // decisions on leases
	_     [48]byte // keeps two locks off one cache line
}

// watchedKey is a key that may be busy. Its leases are of one plan: the first that was asked for.
type watchedKey struct {
	refund  store.Request   // of nothing: the form in which its leases are settled
	asked   time.Time       // when Redis was last asked
	size    int64           // of the next lease
	rest    time.Time       // until then the bucket has nothing to lease
	lease   *lease          // nil: none
	landing <-chan struct{} // closed when the renewal under way has landed; nil: none
}

// lease is tokens that this process has taken ahead.
type lease struct {
	given  store.Answer // that brought them
	ticket int64
	asked  time.Time // not after the instant of given
	left   int64     // tokens that nobody has used
	used   bool      // since the timer last looked
	timer  *time.Timer
}

// use takes n tokens of h, or puts back -n of those that were taken. a becomes what the bucket has at now, as far as
// this process knows, and what is left of h. The shard's mu is held.
func (h *lease) use(n int64, a *store.Answer, p *bucket.Plan, now time.Time) (ok bool) {
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

// under returns the watched key of a bucket if its leases are of plan p. mu is held.
func (sh *leaseShard) under(p *bucket.Plan, b bucketOf) *watchedKey {
	if k := sh.keys[b]; k != nil && k.refund.Plan == p {
		return k
	}
	return nil
}

// watch returns the watched key of r. It begins to watch it if need be, and returns nil when there is no room. mu is
// held.
func (sh *leaseShard) watch(b bucketOf, r *store.Request, now time.Time) *watchedKey {
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
	k := &watchedKey{refund: store.NewRequest(b.policy, b.key, bucket.Request{Plan: r.Plan, Action: bucket.Refund})}
	sh.keys[b] = k
	return k
}

// busy reports whether k must stay watched under its plan. The shard's mu is held.
func (k *watchedKey) busy(now time.Time) bool {
	return k.landing != nil || k.lease != nil || now.Sub(k.asked) <= leaseIdle
}

// end forgets the lease and returns what settles it. The shard's mu is held.
func (k *watchedKey) end() (settles bucket.Ending) {
	h := k.lease
	if h == nil {
		return bucket.Ending{}
	}
	k.lease = nil
	h.timer.Stop()
	return bucket.Ending{Ticket: h.ticket, At: h.given.Now + bucket.LeaseLife, Back: h.left}
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
func leasable(r *store.Request) bool { return r.N > 0 && r.Each == nil && !r.Dry && r.Plan.Plain }
