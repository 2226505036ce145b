package store

import (
	"hash/maphash"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// entry is what a Memory holds of one key. With many keys, a decision spends most of its time on fetching memory. So an entry is one
// cache line, of 64 bytes, and what all keys of a policy have in common is in their class.
type entry struct {
	class  *Class
	units  int64    // Units of the only record; its Keep is rank[full]
	at     int64    // At of the only record
	rank   [2]int64 // [use]: the number of the decision that used it last; [full]: when every limit is full, in µs since 1970
	length uint8    // of the key
	key    [23]byte // the key, if it is no longer than this, as IPv4 addresses are; otherwise class has it
}

// The two orders of a shard's entries: by use, and by when they are full. They are indices of rank.
const (
	use  = 0
	full = 1
)

// newEntry returns an entry without records for a key of c's policy. It copies the key: see [Request.Key].
func newEntry(c *Class, key string) (e entry) {
	e.class, e.length = c, uint8(len(key)) // at most 128
	if copy(e.key[:], key) < len(key) {
		own := *c
		own.key = strings.Clone(key)
		e.class = &own
	}
	return e
}

// is reports whether e is the entry of a key of c's policy.
func (e *entry) is(c *Class, key string) bool {
	switch {
	case int(e.length) != len(key) || e.class != c && e.class.policy != c.policy:
		return false
	case len(key) > len(e.key):
		return e.class.key == key
	}
	return string(e.key[:len(key)]) == key
}

// hash returns what hashOf returns for e's key.
func (e *entry) hash() uint64 {
	if int(e.length) > len(e.key) {
		return e.class.hashOf(e.class.key)
	}
	return e.class.hash ^ maphash.Bytes(keySeed, e.key[:e.length])
}

// read sets r to the only record of e. It writes each field once, because a processor has to wait when it reads a word that was just
// written in parts.
func (e *entry) read(r *bucket.Record) {
	r.Rate, r.Units, r.At, r.Keep = e.class.rate, e.units, e.at, e.rank[full]
}

// put stores records, which a plan of the class c wrote and which matter until an instant. It returns what rank[full] must become. If
// there are several records, holds or a cut, e keeps the slice records in a class of its own. Otherwise e gets the class c if that has
// everything but the numbers of the only record.
func (e *entry) put(records []bucket.Record, until int64, c *Class) int64 {
	if len(records) > 1 || records[0].Holds != nil || records[0].Cut != nil {
		e.class = &Class{policy: c.policy, hash: c.hash, records: records, key: e.class.key}
		return until
	}
	rate := records[0].Rate
	e.units, e.at = records[0].Units, records[0].At
	switch {
	case e.class.writes(rate):
	case e.class.key == "" && c.writes(rate):
		e.class = c
	default:
		e.class = &Class{policy: c.policy, hash: c.hash, rate: rate, key: e.class.key}
	}
	return records[0].Keep
}
