package denycache

import (
	"errors"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucketname"
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

// cache remembers denials.
type cache struct {
	horizon time.Duration
	shards  [denialShards]denialShard
}

type denialShard struct {
	mu       sync.Mutex              // guards all below
	entries  map[uint64]*denial      // by a hash of policy and key: of two buckets with the same one, the last stays
	repeated int64                   // denials
	giving   map[bucketname.Name]int // how many requests are under way that return tokens to a key
	// versions count, by a hash of the key, what returned or took tokens. A denial that was asked for before is not
	// kept after it.
	versions [denialSlots]uint32
	doubted  [denialSlots]instant // until when tokens may still come to one of these keys
	_        [40]byte             // keeps two locks off one cache line
}

// denial is an answer that stays true for a while. It never changes.
type denial struct {
	bucket bucketname.Name
	plan   *bucket.Plan
	cost   int64 // that was denied; all higher costs are denied too
	answer store.Answer
	heard  instant // when the answer came, to the microsecond: not before its instant
	until  instant
}

// instant is a time in ns since 1970. Comparing time.Times takes several times as long.
type instant int64

// sinceMicro is the ns since t's microsecond began: the server counts whole ones.
func (t instant) sinceMicro() instant { return t % 1000 }

// repeat sets a to the denial of r that is known to be true at now. If there is none it returns a version for keep.
func (d *cache) repeat(b bucketname.Name, r *store.Request, a *store.Answer, now instant) (ok bool, version uint32) {
	sh, slot := d.shard(b)
	sh.mu.Lock()
	known := sh.entries[b.Hash]
	version = sh.versions[slot]
	switch {
	case known == nil, known.bucket != b, known.plan != r.Plan, r.N < known.cost, r.N > known.cost && known.answer.Waits != nil:
	case now >= known.until, now < known.heard:
		delete(sh.entries, b.Hash)
	default:
		ok = true
		sh.repeated++
	}
	sh.mu.Unlock()
	if ok {
		*a = known.answer
		a.Age(r.Plan, int64(now-known.heard)/1000)
	}
	return ok, version
}

// keep remembers the denial a of r, which was asked at asked and heard at heard. It does not if a request that returned
// or took tokens may have been executed since repeat returned version.
func (d *cache) keep(b bucketname.Name, r *store.Request, a *store.Answer, version uint32, asked, heard instant) {
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
	sh, slot := d.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.versions[slot] != version || sh.giving[b] > 0 || asked < sh.doubted[slot] {
		return
	}
	if sh.entries == nil {
		sh.entries = make(map[uint64]*denial)
	}
	if _, known := sh.entries[b.Hash]; !known && len(sh.entries) >= maxDenials/denialShards {
		for victim := range sh.entries { // any: a key under attack is back at once
			delete(sh.entries, victim)
			break
		}
	}
	known := &denial{b.Clone(), r.Plan, r.N, *a, heard - heard.sinceMicro(), asked - asked.sinceMicro() + instant(wait)}
	known.answer.Source = store.FromDenyCache
	sh.entries[b.Hash] = known
}

// giving forgets the denial of a key to which tokens are about to be returned, and blocks caching until given is called.
func (s *Store) giving(b bucketname.Name) {
	sh, _ := s.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.giving == nil {
		sh.giving = make(map[bucketname.Name]int)
	}
	sh.giving[b]++
	delete(sh.entries, b.Hash)
}

// given ends what giving began. If err leaves it open whether the tokens may still come, caching stays blocked for a
// while.
func (s *Store) given(b bucketname.Name, err error) {
	now, clockErr := s.now()
	sh, slot := s.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.versions[slot]++
	if sh.giving[b]--; sh.giving[b] == 0 {
		delete(sh.giving, b)
	}
	if err != nil && clockErr == nil && !certain(err) {
		sh.doubted[slot] = max(sh.doubted[slot], now+instant(doubt))
	}
}

// certain reports whether err proves that the request was decided, or never will be.
func certain(err error) bool {
	var e interface{ Certain() bool }
	return errors.As(err, new(*store.StateError)) || errors.Is(err, store.ErrApart) || errors.As(err, &e) && e.Certain()
}

// taken forgets the denial of a key from which tokens were taken: its delay would be too short.
func (d *cache) taken(b bucketname.Name) {
	sh, slot := d.shard(b)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.versions[slot]++
	delete(sh.entries, b.Hash)
}

// Repeated returns how many denials s has repeated.
func (d *cache) Repeated() (n int64) {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		n += sh.repeated
		sh.mu.Unlock()
	}
	return n
}

// shard returns where the denials of b are, and its slot there.
func (d *cache) shard(b bucketname.Name) (sh *denialShard, slot int) {
	return &d.shards[b.Hash%denialShards], int(b.Hash / denialShards % denialSlots)
}
