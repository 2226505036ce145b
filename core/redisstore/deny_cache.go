package redisstore

import (
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
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
	shards  [denialShards]denialShard
}

type denialShard struct {
	mu       sync.Mutex         // guards all below
	entries  map[uint64]*denial // by a hash of policy and key: of two buckets with the same one, the last stays
	repeated int64              // denials
	giving   map[bucketOf]int   // how many requests are under way that return tokens to a key
	// versions count, by a hash of the key, what returned or took tokens. A denial that was asked for before is not
	// kept after it.
	versions [denialSlots]uint32
	_        [40]byte // keeps two locks off one cache line
}

// denial is an answer that stays true for a while. It never changes.
type denial struct {
	bucket bucketOf
	plan   *bucket.Plan
	cost   int64 // that was denied; all higher costs are denied too
	answer store.Answer
	heard  instant // when the answer came, to the microsecond: not before its instant
	until  instant
}

// instant is a time in ns since 1970. Comparing time.Times takes several times as long.
type instant int64

// instantOf converts t.
func instantOf(t time.Time) instant { return instant(t.UnixNano()) }

// sinceMicro is the ns since t's microsecond began: the server counts whole ones.
func (t instant) sinceMicro() instant { return t % 1000 }

// applies reports whether r may use the cache.
func (d *denyCache) applies(r *store.Request) bool {
	return d.horizon > 0 && r.Action == bucket.Take && r.N > 0 && r.Each == nil
}

// repeat sets a to the denial of r that is known to be true at now. If there is none it returns a version for keep.
func (d *denyCache) repeat(r *store.Request, a *store.Answer, now instant) (ok bool, version uint32) {
	known, age, version := d.find(of(r), r.Plan, r.N, now)
	if known == nil {
		return false, version
	}
	*a = *known
	a.Age(r.Plan, age)
	return true, version
}

// find returns the denial of a request for n tokens that is true at now, and its age in µs; nil if there is none.
func (d *denyCache) find(b bucketOf, p *bucket.Plan, n int64, now instant) (answer *store.Answer, age int64, version uint32) {
	sh, slot := d.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	known := sh.entries[b.hash]
	switch {
	case known == nil, known.bucket != b, known.plan != p, n < known.cost, n > known.cost && known.answer.Waits != nil:
		return nil, 0, sh.versions[slot]
	case now >= known.until, now < known.heard:
		delete(sh.entries, b.hash)
		return nil, 0, sh.versions[slot]
	}
	sh.repeated++
	return &known.answer, int64(now-known.heard) / 1000, sh.versions[slot]
}

// keep remembers the denial a of r, which was asked at asked and heard at heard. It does not if a request that returned
// or took tokens may have been executed since repeat returned version.
func (d *denyCache) keep(r *store.Request, a store.Answer, version uint32, asked, heard instant) {
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
		micros := min(a.RetryAfter(r.Plan, i, r.Of(i)), d.horizon.Microseconds()+1)
		wait = max(wait, time.Duration(micros)*time.Microsecond)
	}
	wait = min(wait, d.horizon)
	a.Source = core.FromDenyCache
	b := of(r)
	sh, slot := d.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.versions[slot] != version || sh.giving[b] > 0 {
		return
	}
	if sh.entries == nil {
		sh.entries = make(map[uint64]*denial)
	}
	if _, known := sh.entries[b.hash]; !known && len(sh.entries) >= maxDenials/denialShards {
		for victim := range sh.entries { // any: a key under attack is back at once
			delete(sh.entries, victim)
			break
		}
	}
	sh.entries[b.hash] = &denial{b.clone(), r.Plan, r.N, a, heard - heard.sinceMicro(), asked - asked.sinceMicro() + instant(wait)}
}

// depart must be called before calls are sent.
func (d *denyCache) depart(calls []*call) {
	for _, c := range calls {
		if c.request.Gives() {
			d.giving(of(&c.request))
		}
		for i := range c.others {
			if r := &c.others[i].request; r.Gives() {
				d.giving(of(r))
			}
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
		case r.Moves() && (o.answer.Allowed || o.err != nil):
			d.taken(of(r))
		}
		for j := range c.others {
			if r := &c.others[j].request; r.Gives() {
				d.given(of(r), o.err)
			} else {
				d.taken(of(r))
			}
		}
	}
}

// giving forgets the denial of a key to which tokens are about to be returned, and blocks caching until given is called.
func (d *denyCache) giving(b bucketOf) {
	if d.horizon == 0 {
		return
	}
	sh, _ := d.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.giving == nil {
		sh.giving = make(map[bucketOf]int)
	}
	sh.giving[b]++
	delete(sh.entries, b.hash)
}

// given ends what giving began. If err leaves it open whether the tokens may still come, caching stays blocked for a
// while.
func (d *denyCache) given(b bucketOf, err error) {
	if d.horizon == 0 {
		return
	}
	end := func() {
		sh, slot := d.shard(b)
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
	sh, slot := d.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.versions[slot]++
	delete(sh.entries, b.hash)
}

// shard returns where the denials of b are, and its slot there.
func (d *denyCache) shard(b bucketOf) (sh *denialShard, slot int) {
	return &d.shards[b.hash%denialShards], int(b.hash / denialShards % denialSlots)
}
