package denycache

import (
	"errors"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	// maxDenials bounds the entries of a cache. A new one replaces any other.
	maxDenials = 1 << 16
	// denialShards is how many locks the keys are spread over.
	denialShards = 16
	// denialSlots is how many versions a shard has. Keys with one slot share a
	// version.
	denialSlots = 256
	// uncertain is how long the tokens of a Refund or Reset that got no answer
	// may still come back.
	uncertain = time.Minute
)

// cache remembers denials.
//
// A denial must not be kept if tokens came back meanwhile. So a request first
// reads its key's version, and its denial is kept only if the version is still
// the same. Whatever returns tokens calls beginReturn before and endReturn
// after. Example:
//
//	request A: reads version 7, is denied, its answer is on the way
//	refund B:  beginReturn drops denials, the store refunds, endReturn sets version 8
//	request A: has its answer; keep sees version 8 and does not keep the denial
type cache struct {
	horizon time.Duration
	shards  [denialShards]denialShard
}

type denialShard struct {
	mu        sync.Mutex         // guards all below
	entries   map[uint64]*denial // by a hash of policy and key: of two buckets with the same hash, the last stays
	repeated  int64              // how many denials were repeated
	returning map[uint64]int     // how many requests in flight return tokens to a key, by the same hash
	// versions count, by slot, the requests that returned or took tokens.
	versions       [denialSlots]uint32
	uncertainUntil [denialSlots]instant // by slot: a denial that was asked for before is not kept
	_              [40]byte             // keeps two locks off one cache line
}

// denial is an answer that stays true for a while. It never changes.
type denial struct {
	request  store.Request // what was denied: all higher costs are denied too
	answer   store.Answer
	answered instant // when the answer came, rounded down to the microsecond: the answer's delays count from then
	until    instant // when it no longer holds
}

// instant is a time in ns since 1970. Comparing time.Times takes several times
// as long.
type instant int64

// sinceMicro returns the ns since t's microsecond began. Buckets count whole
// microseconds.
func (t instant) sinceMicro() instant { return t % 1000 }

// repeat sets a to a denial that still holds for r at now. If there is none, ok
// is false, and version is for keep.
func (d *cache) repeat(r *store.Request, a *store.Answer, now instant) (ok bool, version uint32) {
	hash := r.Hash()
	sh, slot := d.shard(hash)
	sh.mu.Lock()
	known := sh.entries[hash]
	version = sh.versions[slot]
	switch {
	case known == nil, !known.request.SameBucket(r), known.request.Set != r.Set, r.N < known.request.N, r.N > known.request.N && known.answer.Waits != nil:
	case now >= known.until, now < known.answered:
		delete(sh.entries, hash)
	default:
		ok = true
		sh.repeated++
	}
	sh.mu.Unlock()
	if ok {
		*a = known.answer
		a.Age(r.Set, int64(now-known.answered)/1000)
	}
	return ok, version
}

// keep remembers the denial a of r, which was asked for at asked and answered
// at answered, unless a request that returned or took tokens may have been
// executed since repeat returned version.
func (d *cache) keep(r *store.Request, a *store.Answer, version uint32, asked, answered instant) {
	if !a.Levels.Inline() {
		return // callers of repeat would share its levels
	}
	if a.Waits != nil && (r.N > 1 || len(r.Set.Rates) > 1) {
		return // waits hold for this cost of one limit only: while tokens are held, others don't follow from the level
	}
	wait := time.Duration(0) // until every limit has the tokens, or the horizon
	for i := range r.Set.Rates {
		if a.Now+a.ResetAfter(r.Set, i) >= bucket.Forever-1 {
			return // beyond the last instant that state can hold, the store's next denial may say a shorter wait
		}
		micros := min(a.RetryAfter(r.Set, i, r.Of(i)), d.horizon.Microseconds()+1)
		wait = max(wait, time.Duration(micros)*time.Microsecond)
	}
	wait = min(wait, d.horizon)
	hash := r.Hash()
	sh, slot := d.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.versions[slot] != version || sh.returning[hash] > 0 || asked < sh.uncertainUntil[slot] {
		return
	}
	if sh.entries == nil {
		sh.entries = make(map[uint64]*denial)
	}
	if _, known := sh.entries[hash]; !known && len(sh.entries) >= maxDenials/denialShards {
		for victim := range sh.entries { // any: a key under attack is back at once
			delete(sh.entries, victim)
			break
		}
	}
	known := &denial{r.Clone(), *a, answered - answered.sinceMicro(), asked - asked.sinceMicro() + instant(wait)}
	known.answer.Source = bucket.FromDenyCache
	sh.entries[hash] = known
}

// beginReturn drops the denial of a key to which a request is about to return
// tokens, and blocks caching until endReturn.
func (s *Store) beginReturn(r *store.Request) {
	hash := r.Hash()
	sh, _ := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.returning == nil {
		sh.returning = make(map[uint64]int)
	}
	sh.returning[hash]++
	delete(sh.entries, hash)
}

// endReturn ends what beginReturn began. If err leaves it open whether the
// tokens may still come back, caching stays blocked for the time uncertain.
func (s *Store) endReturn(r *store.Request, err error) {
	now, clockErr := s.now()
	hash := r.Hash()
	sh, slot := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.versions[slot]++
	if sh.returning[hash]--; sh.returning[hash] == 0 {
		delete(sh.returning, hash)
	}
	if err != nil && clockErr == nil && !certain(r, err) {
		sh.uncertainUntil[slot] = max(sh.uncertainUntil[slot], now+instant(uncertain))
	}
}

// certain reports whether err proves that r was executed, or never will be.
func certain(r *store.Request, err error) bool {
	var e interface{ Certain() bool }
	return errors.As(err, new(*store.StateError)) || errors.Is(err, store.ErrApart) || r.Until == 0 && errors.As(err, &e) && e.Certain()
}

// invalidate drops the denial of a key from which tokens were taken: its
// RetryAfter would be too short now.
func (d *cache) invalidate(r *store.Request) {
	hash := r.Hash()
	sh, slot := d.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.versions[slot]++
	delete(sh.entries, hash)
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

func (d *cache) shard(hash uint64) (sh *denialShard, slot int) {
	return &d.shards[hash%denialShards], int(hash / denialShards % denialSlots)
}
