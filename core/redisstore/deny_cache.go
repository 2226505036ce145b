package redisstore

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

const (
	// maxDenials bounds the entries of a cache. A key under attack is asked for again and again; keys that are asked
	// for once need no place in it.
	maxDenials = 1 << 16
	// denialShards keeps goroutines apart.
	denialShards = 16
	// denialSlots tells the keys of a shard apart, mostly.
	denialSlots = 256
	// doubt is how long tokens may come late: those of a Refund or Reset that was sent and got no answer.
	doubt = time.Minute
)

// denyCache remembers denials. Its zero value with a horizon is ready for use.
type denyCache struct {
	horizon time.Duration // 0: nothing is remembered
	seed    maphash.Seed
	shards  [denialShards]denialShard
}

type denialShard struct {
	mu       sync.Mutex // guards all below
	entries  map[bucketOf]*denial
	repeated int64            // denials
	giving   map[bucketOf]int // how many requests are under way that return tokens to a key
	// versions count, by a hash of the key, what returned or took tokens. A denial that was asked for before is not
	// kept after it.
	versions [denialSlots]uint32
	_        [40]byte // keeps two locks off one cache line
}

// denial is an answer that stays true for a while. It never changes.
type denial struct {
	plan   *bucket.Plan
	cost   int64 // that was denied; all higher costs are denied too
	answer core.Answer
	heard  time.Time // when the answer came: not before its instant
	until  time.Time
}

// applies reports whether r may use the cache.
func (d *denyCache) applies(r *core.Request) bool {
	return d.horizon > 0 && r.Action == bucket.Take && r.N > 0
}

// repeat sets a to the denial of r that is known to be true at now. If there is none it returns a version for keep.
func (d *denyCache) repeat(r *core.Request, a *core.Answer, now time.Time) (ok bool, version uint32) {
	known, age, version := d.find(of(r), r.Plan, r.N, now)
	if known == nil {
		return false, version
	}
	*a = *known
	a.Age(r.Plan, age)
	return true, version
}

// find returns the denial of a request for n tokens that is true at now, and its age in µs; nil if there is none.
func (d *denyCache) find(b bucketOf, p *bucket.Plan, n int64, now time.Time) (answer *core.Answer, age int64, version uint32) {
	sh, slot := d.shard(b.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	known := sh.entries[b]
	switch {
	case known == nil, known.plan != p, n < known.cost, n > known.cost && known.answer.Waits != nil:
		return nil, 0, sh.versions[slot]
	case !now.Before(known.until), now.Before(known.heard):
		delete(sh.entries, b)
		return nil, 0, sh.versions[slot]
	}
	sh.repeated++
	return &known.answer, (now.Sub(known.heard) + sinceMicro(known.heard)).Microseconds(), sh.versions[slot]
}

// keep remembers the denial a of r, which was asked at asked and heard at heard. It does not if a request that returned
// or took tokens may have been executed since repeat returned version.
func (d *denyCache) keep(r *core.Request, a core.Answer, version uint32, asked, heard time.Time) {
	if !a.Levels.Inline() {
		return // callers of repeat would share its levels
	}
	if a.Waits != nil && (r.N > 1 || len(r.Plan.Rates) > 1) {
		return // how a level rises behind holds is not known here
	}
	wait := time.Duration(0) // until every limit has the tokens
	for i := range r.Plan.Rates {
		if a.Now+a.ResetAfter(r.Plan, i) >= bucket.Forever-1 {
			return // state can't hold this instant, so the next denial may tell an earlier one
		}
		micros := min(a.RetryAfter(r.Plan, i, r.N), d.horizon.Microseconds()+1)
		wait = max(wait, time.Duration(micros)*time.Microsecond)
	}
	wait = min(wait, d.horizon)
	a.Source = core.FromDenyCache
	sh, slot := d.shard(r.Key())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.versions[slot] != version || sh.giving[of(r)] > 0 {
		return
	}
	if sh.entries == nil {
		sh.entries = make(map[bucketOf]*denial)
	}
	if _, known := sh.entries[of(r)]; !known && len(sh.entries) >= maxDenials/denialShards {
		for victim := range sh.entries { // any: a key under attack is back at once
			delete(sh.entries, victim)
			break
		}
	}
	sh.entries[of(r).clone()] = &denial{r.Plan, r.N, a, heard, asked.Add(wait - sinceMicro(asked))}
}

// sinceMicro is the time since t's microsecond began: the server counts whole ones.
func sinceMicro(t time.Time) time.Duration { return time.Duration(t.Nanosecond() % 1000) }

// depart must be called before calls are sent.
func (d *denyCache) depart(calls []*call) {
	for _, c := range calls {
		if c.request.Gives() {
			d.giving(of(&c.request))
		}
	}
}

// arrive must be called when the outcomes of calls are known, before their callers have them.
func (d *denyCache) arrive(calls []*call, outcomes []outcome, err error) {
	if d.horizon == 0 {
		return
	}
	for i, c := range calls {
		o := outcomeOf(i, outcomes, err)
		switch r := &c.request; {
		case r.Gives():
			d.given(of(r), o.err)
		case r.N > 0 && (o.answer.Allowed || o.err != nil):
			d.taken(of(r))
		}
	}
}

// giving forgets the denial of a key to which tokens are about to be returned, and blocks caching until given is called.
func (d *denyCache) giving(b bucketOf) {
	if d.horizon == 0 {
		return
	}
	sh, _ := d.shard(b.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.giving == nil {
		sh.giving = make(map[bucketOf]int)
	}
	sh.giving[b]++
	delete(sh.entries, b)
}

// given ends what giving began. If err leaves it open whether the tokens may still come, caching stays blocked for a
// while.
func (d *denyCache) given(b bucketOf, err error) {
	if d.horizon == 0 {
		return
	}
	end := func() {
		sh, slot := d.shard(b.key)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.versions[slot]++
		if sh.giving[b]--; sh.giving[b] == 0 {
			delete(sh.giving, b)
		}
	}
	if certain(err) {
		end()
	} else {
		time.AfterFunc(doubt, end)
	}
}

// taken forgets the denial of a key from which tokens were taken: its delay would be too short.
func (d *denyCache) taken(b bucketOf) {
	sh, slot := d.shard(b.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.versions[slot]++
	delete(sh.entries, b)
}

// shard returns where denials of key are, and its slot there.
func (d *denyCache) shard(key string) (sh *denialShard, slot int) {
	h := maphash.String(d.seed, key)
	return &d.shards[h%denialShards], int(h / denialShards % denialSlots)
}
