package store

import (
	"hash/maphash"
	"math/bits"
	"unique"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// Class is what keys of a policy have in common: they share the class of the plan that wrote them. A key that is long,
// or has several records, or one that several definitions of a limit wrote, has a class of its own. A class never
// changes, but for the numbers in its records.
type Class struct {
	policy unique.Handle[string]
	hash   uint64        // of the policy
	form   bucket.Record // Tag, Steps and Fill of the record, if there is one

	records []bucket.Record // nil if there is one record, without holds
	key     string          // "" if it is in the entry
}

// keySeed is the seed of all hashes of policies and keys.
var keySeed = maphash.MakeSeed()

// NewClass returns the class of a policy's keys that have one record, if there is a plan of one limit.
func NewClass(policy string, p *bucket.Plan) *Class {
	c := &Class{policy: unique.Make(policy), hash: bits.RotateLeft64(maphash.String(keySeed, policy), 1)}
	if p != nil && len(p.Rates) == 1 {
		c.form = bucket.Record{Tag: p.Rates[0].Tag, Steps: p.Rates[0].Steps, Fill: p.Rates[0].Fill}
	}
	return c
}

// hashOf returns the hash of a key of c's policy.
func (c *Class) hashOf(key string) uint64 { return c.hash ^ maphash.String(keySeed, key) }

// writes reports whether keys of c have one record, in this form.
func (c *Class) writes(form bucket.Record) bool {
	return c.records == nil && c.form == form
}
