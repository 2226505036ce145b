package store

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"time"
	"unique"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Request is what a limiter asks a [Store] to decide. Stores pass it to
// [Request.Decide]. The fields of bucket.Request are for stores of this module.
type Request struct {
	bucket.Request

	// Until is the last instant at which a store that could not execute r may
	// still do so, in ns since 1970: whoever asked does not ask again. 0: it may
	// not. See Later.
	Until int64

	class *Class // of the policy's keys
	key   string
	hash  uint64 // what Hash returned; 0: it was not called
}

// NewRequest returns a request on the bucket of a policy and key. It is for
// stores of this module.
func NewRequest(policy, key string, r bucket.Request) Request {
	return NewClass(policy, r.Set).Request(key, r)
}

// Request returns a request on the bucket of a key of c's policy. The key must
// have at most 128 bytes.
func (c *Class) Request(key string, r bucket.Request) Request {
	return Request{Request: r, class: c, key: key}
}

// To makes r a request on the bucket of a key of c's policy: [Class.Request]
// without a copy, which just after a write costs as much as the decision.
func (r *Request) To(c *Class, key string) { r.class, r.key, r.hash = c, key, 0 }

// Policy returns the name of the policy. Policy and Key together identify the
// bucket.
func (r Request) Policy() string { return r.class.policy.Value() }

// Key returns the key that is limited: 1 to 128 bytes of any value. It may be a
// view of a buffer that its owner reuses after the decision, so a store that
// keeps it must clone it.
func (r Request) Key() string { return r.key }

// Hash returns a hash of the policy and the key. Requests on the same bucket
// have the same hash, in this process.
func (r *Request) Hash() uint64 {
	if r.hash == 0 {
		r.hash = r.class.hashOf(r.key)
	}
	return r.hash
}

// SameBucket reports whether r and o have the same policy and key.
func (r *Request) SameBucket(o *Request) bool {
	return r.key == o.key && (r.class == o.class || r.class.policy == o.class.policy)
}

const keptFor = 24 * time.Hour // how long a store may execute a request later at most

// Later returns r with an Until, for requests that return something: the
// instant after which it is there without r, because a hold has ended by
// itself, or a bucket is full.
func (r Request) Later() Request {
	if r.Set == nil {
		return r
	}
	ttl := int64(0) // in µs
	most := keptFor.Microseconds()
	for i := range r.Set.Rates {
		rate := &r.Set.Rates[i]
		ttl = max(ttl, rate.Hold)
		if rate.Gain > 0 {
			ttl = max(ttl, int64(min(float64(most), 2*float64(rate.Full)/float64(rate.Gain)*float64(rate.Step))))
		}
	}
	if r.Action == bucket.Cancel { // it may be due much later
		ttl = most
	}
	r.Until = time.Now().Add(duration(min(ttl, most))).UnixNano()
	return r
}

// Clone returns a copy of r with a copy of its key, so that a store may keep
// it: see [Request.Key].
func (r *Request) Clone() Request {
	c := *r
	c.key = strings.Clone(r.key)
	return c
}

// Answer is a [Store]'s answer to a [Request]. Its field Allowed reports
// whether the request is allowed. The other fields are for limiters.
type Answer = bucket.Answer

// Decide is the token bucket's arithmetic, for stores that keep state as bytes.
// It decides r at the instant now. state is what the store keeps under r's
// policy and key, or nil if it keeps nothing.
//
// If next is not nil, the store must replace state with next, in the atomic
// step in which it read state and now. It must keep next for at least ttl; then
// the bucket is full, and the store may forget it.
//
// Decide returns a [StateError] for state that this library did not write; the
// store should leave that state as it is. It returns [ErrClock] if now is not
// from 1970 to 17 September 2112.
func (r Request) Decide(state []byte, now time.Time) (answer Answer, next []byte, ttl time.Duration, err error) {
	at, err := Instant(now)
	if err != nil {
		return Answer{}, nil, 0, err
	}
	var b bucket.Bucket
	if err := b.Parse(state); err != nil {
		return Answer{}, nil, 0, r.stateError(err)
	}
	if !bucket.Decide(at, &b, &r.Request, &answer) {
		return answer, nil, 0, nil
	}
	return answer, b.Append(nil), duration(max(0, b.Expires-at)), nil
}

func (r *Request) stateError(err error) error {
	return fmt.Errorf("policy %q: %w", r.Policy(), &StateError{err.Error()})
}

// StateError means that one key of the store can't be used, such as one whose
// bytes are not a bucket. Other keys still work. The limiter's Reset makes the
// key usable again.
type StateError struct{ Reason string }

// Error returns the reason and the code.
func (e *StateError) Error() string { return "stored state: " + e.Reason + " (RL613)" }

func duration(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// Class has what the keys of a policy have in common. It is for package core
// and [Memory]; other stores need not know of it.
//
// In a Memory, a key usually has the class of the set that wrote it, and its
// entry has the rest: the key, and the numbers of its only record. Otherwise
// the key has a class of its own: it is long, or has several records or holds,
// or another definition of the limit wrote its record. Only the records and
// holds of a class ever change.
type Class struct {
	policy unique.Handle[string]
	hash   uint64       // of the policy
	rate   *bucket.Rate // that wrote the only record, if there is one

	records []bucket.Record // nil if the entry has the only record
	holds   []bucket.Hold
	key     string // "" if the entry has the key
}

var keySeed = maphash.MakeSeed()

// NewClass returns the class of the keys of a policy. p is the set that
// decides them; nil: there will be only resets.
func NewClass(policy string, p *bucket.LimitSet) *Class {
	c := &Class{policy: unique.Make(policy), hash: bits.RotateLeft64(maphash.String(keySeed, policy), 1)}
	if p != nil && len(p.Rates) == 1 {
		c.rate = &p.Rates[0]
	}
	return c
}

func (c *Class) hashOf(key string) uint64 { return c.hash ^ maphash.String(keySeed, key) }
