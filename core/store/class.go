package store

import (
	"hash/maphash"
	"math/bits"
	"unique"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Class has what the keys of a policy have in common. It is for package core and [Memory]; other stores need not know of it.
//
// In a Memory, a key usually has the class of the plan that wrote it. Its entry has the rest: the key, and the numbers of its only
// record. If that does not say all, the key has a class of its own: it is long, or has several records or holds, or another definition of
// the limit wrote its record. Only the records of a class ever change.
type Class struct {
	policy unique.Handle[string]
	hash   uint64       // of the policy
	rate   *bucket.Rate // that wrote the only record, if there is one

	records []bucket.Record // nil if the entry has the only record
	key     string          // "" if the entry has the key
}

// keySeed is the seed of all hashes of policies and keys.
var keySeed = maphash.MakeSeed()

// NewClass returns the class of the keys of a policy. p is the plan that decides them; nil: there will be only resets.
func NewClass(policy string, p *bucket.Plan) *Class {
	c := &Class{policy: unique.Make(policy), hash: bits.RotateLeft64(maphash.String(keySeed, policy), 1)}
	if p != nil && len(p.Rates) == 1 {
		c.rate = &p.Rates[0]
	}
	return c
}

// hashOf returns the hash of c's policy and a key.
func (c *Class) hashOf(key string) uint64 { return c.hash ^ maphash.String(keySeed, key) }

// writes reports whether keys of c have one record, which this rate wrote.
func (c *Class) writes(rate *bucket.Rate) bool {
	return c.records == nil && c.rate == rate
}
