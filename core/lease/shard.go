package lease

import (
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucketname"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	// share: a lease is at most this part of the smallest Capacity.
	share = 10
	// idle is for how long an unused lease stays here, and what a lease should last a busy key.
	idle = 100 * time.Millisecond
	// margin is how long before its end a lease is returned, used or not.
	margin = 300 * time.Millisecond
	// shards keeps goroutines apart.
	shards = 16
	// crowdRest is for how long a key leases nothing whose callers want more at once than half of the largest lease. Without
	// leases they share calls, which is faster than waiting for one small lease after another.
	crowdRest = time.Second
	// maxWatched bounds the keys that are watched for being busy. Others are decided as without leases.
	maxWatched = 1 << 16
)

type shard struct {
	mu   sync.Mutex // guards all below, and what is in it; never held across I/O
	keys map[bucketname.Name]*watchedKey
	used int64    // decisions on leases
	_    [48]byte // keeps two locks off one cache line
}

// watchedKey is a key that may be busy. Its leases are of one plan: the first that was asked for.
type watchedKey struct {
	refund  store.Request   // of nothing: the form in which its leases are settled
	asked   time.Time       // when the store was last asked
	size    int64           // of the next lease
	rest    time.Time       // until then the bucket has nothing to lease
	lease   *lease          // nil: none
	renewal <-chan struct{} // closed when the renewal under way is done; nil: none
	waiting int64           // tokens that callers want who wait for it
}

// lease is tokens that this process has taken ahead.
type lease struct {
	brought store.Answer // the answer that brought them
	ticket  int64
	asked   time.Time // not after the instant of brought
	left    int64     // tokens that nobody has used
	used    bool      // since the timer last looked
	timer   *time.Timer
}

// use takes n tokens of h, or puts back -n of those that were taken. a becomes what the bucket has at now, as far as
// this process knows, and what is left of h. The shard's mu is held.
func (h *lease) use(n int64, a *store.Answer, p *bucket.Plan, now time.Time) (ok bool) {
	if h == nil || n > h.left || h.left-n > h.brought.Lent || h.over(now) {
		return false
	}
	h.used = true
	h.left -= n
	*a = h.brought
	a.Allowed, a.Source, a.Waits = true, store.FromLease, nil
	a.Levels.Unshare()
	a.AgeAround(p, h.brought.Lent, now.Sub(h.asked).Microseconds())
	a.Add(p, h.left)
	return true
}

// over reports whether h has ended. A clock that stepped back ends it too. The shard's mu is held.
func (h *lease) over(now time.Time) bool {
	return now.Before(h.asked) || now.Sub(h.asked) >= bucket.LeaseLife*time.Microsecond
}

// under returns the watched key of a bucket if its leases are of plan p. mu is held.
func (sh *shard) under(p *bucket.Plan, b bucketname.Name) *watchedKey {
	if k := sh.keys[b]; k != nil && k.refund.Plan == p {
		return k
	}
	return nil
}

// watch returns the watched key of r. It begins to watch it if need be, and returns nil when there is no room. mu is
// held.
func (sh *shard) watch(b bucketname.Name, r *store.Request, now time.Time) *watchedKey {
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
	if len(sh.keys) >= maxWatched/shards {
		return nil
	}
	if sh.keys == nil {
		sh.keys = make(map[bucketname.Name]*watchedKey)
	}
	b = b.Clone()
	k := &watchedKey{refund: store.NewRequest(b.Policy, b.Key, bucket.Request{Plan: r.Plan, Action: bucket.Refund})}
	sh.keys[b] = k
	return k
}

// busy reports whether k must stay watched under its plan. The shard's mu is held.
func (k *watchedKey) busy(now time.Time) bool {
	return k.renewal != nil || k.lease != nil || now.Sub(k.asked) <= idle
}

// end forgets the lease and returns what settles it. The shard's mu is held.
func (k *watchedKey) end() (settles bucket.Ending) {
	h := k.lease
	if h == nil {
		return bucket.Ending{}
	}
	k.lease = nil
	h.timer.Stop()
	return bucket.Ending{Ticket: h.ticket, At: h.brought.Now + bucket.LeaseLife, Back: h.left}
}

// next chooses how many tokens a decision should lease beyond its cost: about what the key uses in idle, and 0
// while that is nothing. The shard's mu is held.
func (k *watchedKey) next(most int64, now time.Time) (extra int64) {
	age := now.Sub(k.asked)
	k.asked = now
	switch {
	case age < idle/2:
		k.size = max(1, 2*k.size)
	case age > 2*idle:
		k.size /= 2
	}
	k.size = min(k.size, k.largest(most))
	if now.Before(k.rest) {
		return 0
	}
	return k.size
}

// largest is how many tokens a lease of k can have, of a store with leases of at most so many.
func (k *watchedKey) largest(most int64) int64 { return min(most, k.refund.Plan.LeastCapacity()/share) }

// leasable reports whether r may use tokens on lease: limits that count something else, or are aligned to a calendar, are
// decided by the store each time.
func leasable(r *store.Request) bool { return r.N > 0 && r.Each == nil && !r.Dry && r.Plan.Plain }
