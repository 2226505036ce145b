package core

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

const (
	// defaultHorizon is how long a denial is believed without asking again.
	defaultHorizon = time.Second
	// maxDenials bounds the entries of a cache: a key under attack is asked for again and again, and
	// keys that are asked for once need no place in it.
	maxDenials = 1 << 16
	// denialShards keeps goroutines apart.
	denialShards = 16
)

// WithDenyCache sets how long a RedisStore may repeat a denial without asking Redis: by default up to 1
// second, 0 for never. A bucket that told "retry in t" to a cost can't have that cost before t, unless
// somebody gives tokens back or resets it; so until t, but no longer than this, the same key is denied in
// this process, with the RetryAfter that follows from that answer and no round trip. A Refund or Reset by this store ends it at
// once, one by another process is seen when the horizon is over. It holds at most 65,536 keys.
func WithDenyCache(horizon time.Duration) RedisOption {
	return redisOption(func(s *RedisStore) {
		if horizon < 0 {
			s.errs = append(s.errs, &ConfigError{"WithDenyCache", horizon, "must not be negative"})
			return
		}
		s.denials.horizon = horizon
	})
}

// denyCache remembers denials. Its zero value with a horizon is ready for use.
type denyCache struct {
	horizon time.Duration
	seed    maphash.Seed
	shards  [denialShards]denialShard
}

type denialShard struct {
	mu      sync.Mutex // guards all below
	entries map[entryKey]*denial
	clears  uint64 // counts them, so that a denial from before one is not believed after it
	_       [40]byte
}

type entryKey struct{ policy, key string }

// denial is an answer that stays true for a while. It never changes.
type denial struct {
	plan   *plan
	cost   int64 // that was denied, and with it all above
	answer Answer
	heard  time.Time // when the answer came: not before the instant it tells
	until  time.Time
}

func (d *denyCache) shard(key string) *denialShard {
	return &d.shards[maphash.String(d.seed, key)%denialShards]
}

// applies reports whether r's denial may be repeated, and repeat others'.
func (d *denyCache) applies(r *Request) bool {
	return d.horizon > 0 && r.action == take && r.within == 0
}

// repeat puts the denial of r that is known to hold still at now into a. Otherwise it returns a number for
// keep.
func (d *denyCache) repeat(r *Request, a *Answer, now time.Time) (ok bool, clears uint64) {
	known, clears := d.find(r, now)
	if known == nil {
		return false, clears
	}
	*a = known.answer
	a.source = FromDenyCache
	a.now += (now.Sub(known.heard) + begun(known.heard)).Microseconds()
	for i := range r.plan.rates {
		l := a.levels.at(i)
		*l = r.plan.rates[i].refill(*l, a.now)
	}
	return true, 0
}

// find returns the denial that covers r at now, or nil.
func (d *denyCache) find(r *Request, now time.Time) (known *denial, clears uint64) {
	sh := d.shard(r.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	known = sh.entries[entryKey{r.policy, r.key}]
	switch {
	case known == nil, known.plan != r.plan, r.n < known.cost:
		return nil, sh.clears
	case !now.Before(known.until), now.Before(known.heard):
		delete(sh.entries, entryKey{r.policy, r.key})
		return nil, sh.clears
	}
	return known, sh.clears
}

// keep remembers the denial a of r, which was asked at asked and heard at heard; clears is what repeat
// told before.
func (d *denyCache) keep(r *Request, a Answer, clears uint64, asked, heard time.Time) {
	if a.levels.many != nil {
		return // its levels are on the heap, where callers of repeat would share them
	}
	wait := time.Duration(0)
	for i := range r.plan.rates {
		wait = max(wait, retryAfter(&r.plan.rates[i], *a.levels.at(i), r.n, a.now))
	}
	wait = min(wait, d.horizon)
	sh := d.shard(r.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.clears != clears {
		return
	}
	if sh.entries == nil {
		sh.entries = make(map[entryKey]*denial)
	}
	key := entryKey{r.policy, r.key}
	if _, known := sh.entries[key]; !known && len(sh.entries) >= maxDenials/denialShards {
		for victim := range sh.entries { // any: a key under attack is back at once
			delete(sh.entries, victim)
			break
		}
	}
	key.key = strings.Clone(key.key)
	sh.entries[key] = &denial{r.plan, r.n, a, heard, asked.Add(wait - begun(asked))}
}

// begun is what has passed of t's microsecond: the store counts whole ones.
func begun(t time.Time) time.Duration { return time.Duration(t.Nanosecond() % 1000) }

// clear forgets the denial of a key to which tokens were given (any denial that is on its way here is
// not kept then) or from which others were taken (it would tell too short a delay).
func (d *denyCache) clear(policy, key string, given bool) {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if given {
		sh.clears++
	}
	delete(sh.entries, entryKey{policy, key})
}
