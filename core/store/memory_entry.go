package store

import (
	"hash/maphash"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// entry is what a Memory holds of one key. With many keys, a decision spends its time on fetching memory. An entry
// is therefore one cache line, and what all keys of a policy have in common stands once, in their class.
type entry struct {
	class  *Class
	tokens float64  // Tokens of the record, if there is one; its Keep is rank[full]
	at     int64    // its At
	rank   [2]int64 // [use]: which decision used it last; [full]: when every limit is full, in µs since 1970
	length uint8    // length of the key
	key    [23]byte // the key, if it is no longer than that, as IP addresses are; else it is in class
}

// The two orders of a shard's entries. They are indices into an entry's rank.
const (
	use  = 0
	full = 1
)

// newEntry returns an entry without records for a key of c's policy. It copies the key, which may be a view of a buffer
// that its owner reuses.
func newEntry(c *Class, key string) (e entry) {
	e.class, e.length = c, uint8(len(key)) // at most maxKey
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

// hash returns what hashOf returned for e's key.
func (e *entry) hash() uint64 {
	if int(e.length) > len(e.key) {
		return e.class.hashOf(e.class.key)
	}
	return e.class.hash ^ maphash.Bytes(keySeed, e.key[:e.length])
}

// read sets r to the record of an entry that has one. It writes each field once, because processors wait for words
// that were just written in parts.
func (e *entry) read(r *bucket.Record) {
	form := &e.class.form
	r.Tag, r.StepsHash, r.Fill.Capacity, r.Fill.Pace = form.Tag, form.StepsHash, form.Fill.Capacity, form.Fill.Pace
	r.Tokens, r.At, r.Keep = e.tokens, e.at, e.rank[full]
}

// put stores records, which e keeps if there are several or tokens are held. Its class becomes c if c says what is to be said of them. put
// returns the instant for rank[full]: until, when records no longer matter, or the Keep of the sole one.
func (e *entry) put(records []bucket.Record, until int64, c *Class) int64 {
	if len(records) > 1 || records[0].Holds != nil {
		e.class = &Class{policy: c.policy, hash: c.hash, records: records, key: e.class.key}
		return until
	}
	form := records[0]
	form.Tokens, form.At, form.Keep = 0, 0, 0
	e.tokens, e.at = records[0].Tokens, records[0].At
	switch {
	case e.class.writes(form): // as before
	case e.class.key == "" && c.writes(form):
		e.class = c
	default:
		e.class = &Class{policy: c.policy, hash: c.hash, form: form, key: e.class.key}
	}
	return records[0].Keep
}
