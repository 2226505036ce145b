package core

import (
	"hash/maphash"
	"slices"
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
	// denialSlots tells the keys of a shard apart, mostly.
	denialSlots = 256
	// doubt is how long tokens may come late: those of a Refund or Reset that was sent, and of which nobody
	// heard whether it was executed.
	doubt = time.Minute
)

// WithDenyCache sets how long a RedisStore may repeat a denial without asking Redis: by default up to 1
// second, 0 for never. A bucket that told "retry in t" to a cost can't have that cost before t, unless
// somebody gives tokens back or resets it; so until t, but no longer than this, the same key is denied in
// this process, with the RetryAfter that follows from that answer and no round trip. A Refund or Reset by
// this store ends it before it is sent, and until it is answered (or, if it never is, for a minute) every
// decision on its key asks Redis; one by another process is seen when the horizon is over. It holds at most
// 65,536 keys.
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
	mu       sync.Mutex // guards all below
	entries  map[entryKey]*denial
	repeated int64            // denials
	giving   map[entryKey]int // how many are on their way that give tokens to a key
	// versions count, by a hash of the key, what gave or took tokens: a denial that was asked for before
	// is not kept after it.
	versions [denialSlots]uint32
	_        [40]byte
}

type entryKey struct{ policy, key string }

// clone is k for keeping: its key may be a view of a buffer that its owner reuses.
func (k entryKey) clone() entryKey { return entryKey{k.policy, strings.Clone(k.key)} }

// denial is an answer that stays true for a while. It never changes.
type denial struct {
	plan   *plan
	cost   int64 // that was denied, and with it all above
	answer Answer
	heard  time.Time // when the answer came: not before the instant it tells
	until  time.Time
}

// shard returns where denials of key are, and its slot there.
func (d *denyCache) shard(key string) (sh *denialShard, slot int) {
	h := maphash.String(d.seed, key)
	return &d.shards[h%denialShards], int(h / denialShards % denialSlots)
}

// applies reports whether r's denial may be repeated, and repeat others'.
func (d *denyCache) applies(r *Request) bool {
	return d.horizon > 0 && r.action == take && r.n > 0
}

// repeat puts the denial of r that is known to hold still at now into a. Otherwise it returns a version for
// keep.
func (d *denyCache) repeat(r *Request, a *Answer, now time.Time) (ok bool, version uint32) {
	known, version := d.find(r, now)
	if known == nil {
		return false, version
	}
	*a = known.answer
	a.source = FromDenyCache
	age := (now.Sub(known.heard) + begun(known.heard)).Microseconds()
	a.now += age
	if a.waits != nil { // until it has a token, a bucket with holds has none: see keep
		list := slices.Clone(*a.waits)
		for i := range list {
			list[i] = waits{max(0, list[i].retry-age), max(0, list[i].full-age)}
		}
		a.waits = &list
		return true, 0
	}
	for i := range r.plan.rates {
		l := a.levels.at(i)
		*l = r.plan.rates[i].refill(*l, 0, a.now)
	}
	return true, 0
}

// find returns the denial that covers r at now, or nil.
func (d *denyCache) find(r *Request, now time.Time) (known *denial, version uint32) {
	sh, slot := d.shard(r.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	known = sh.entries[entryKey{r.policy, r.key}]
	switch {
	case known == nil, known.plan != r.plan, r.n < known.cost, r.n > known.cost && known.answer.waits != nil:
		return nil, sh.versions[slot]
	case !now.Before(known.until), now.Before(known.heard):
		delete(sh.entries, entryKey{r.policy, r.key})
		return nil, sh.versions[slot]
	}
	sh.repeated++
	return known, sh.versions[slot]
}

// keep remembers the denial a of r, which was asked at asked and heard at heard, unless what gave or took
// tokens may have been executed since repeat told version.
func (d *denyCache) keep(r *Request, a Answer, version uint32, asked, heard time.Time) {
	if a.levels.many != nil {
		return // its levels are on the heap, where callers of repeat would share them
	}
	if a.waits != nil && (r.n > 1 || len(r.plan.rates) > 1) {
		return // how a level rises behind holds is not known here
	}
	wait := time.Duration(0) // until every limit has the tokens
	for i := range r.plan.rates {
		wait = max(wait, a.retryAfter(r.plan, i, r.n))
	}
	wait = min(wait, d.horizon)
	key := entryKey{r.policy, r.key}
	sh, slot := d.shard(r.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.versions[slot] != version || sh.giving[key] > 0 {
		return
	}
	if sh.entries == nil {
		sh.entries = make(map[entryKey]*denial)
	}
	if _, known := sh.entries[key]; !known && len(sh.entries) >= maxDenials/denialShards {
		for victim := range sh.entries { // any: a key under attack is back at once
			delete(sh.entries, victim)
			break
		}
	}
	sh.entries[key.clone()] = &denial{r.plan, r.n, a, heard, asked.Add(wait - begun(asked))}
}

// begun is what has passed of t's microsecond: the store counts whole ones.
func begun(t time.Time) time.Duration { return time.Duration(t.Nanosecond() % 1000) }

// depart is told of calls before they are sent.
func (d *denyCache) depart(calls []*call) {
	for _, c := range calls {
		if c.request.gives() {
			d.giving(c.request.policy, c.request.key)
		}
	}
}

// arrive is told what became of calls, before their callers are.
func (d *denyCache) arrive(calls []*call, outcomes []outcome, err error) {
	if d.horizon == 0 {
		return
	}
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		switch r := &c.request; {
		case r.gives():
			d.given(r.policy, r.key, o.err)
		case r.n > 0 && (o.answer.Allowed || o.err != nil):
			d.taken(r.policy, r.key)
		}
	}
}

// giving forgets the denial of a key to which tokens are about to be given, and has none kept until given
// tells that they were.
func (d *denyCache) giving(policy, key string) {
	if d.horizon == 0 {
		return
	}
	sh, _ := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.giving == nil {
		sh.giving = make(map[entryKey]int)
	}
	sh.giving[entryKey{policy, key}]++
	delete(sh.entries, entryKey{policy, key})
}

// given ends what giving began. By err it knows whether the tokens may come yet.
func (d *denyCache) given(policy, key string, err error) {
	if d.horizon == 0 {
		return
	}
	end := func() {
		sh, slot := d.shard(key)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.versions[slot]++
		k := entryKey{policy, key}
		if sh.giving[k]--; sh.giving[k] == 0 {
			delete(sh.giving, k)
		}
	}
	if certain(err) {
		end()
	} else {
		time.AfterFunc(doubt, end)
	}
}

// taken forgets the denial of a key from which tokens were taken: it would tell too short a delay.
func (d *denyCache) taken(policy, key string) {
	sh, slot := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.versions[slot]++
	delete(sh.entries, entryKey{policy, key})
}
