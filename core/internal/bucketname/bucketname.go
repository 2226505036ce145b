// Package bucketname names buckets as keys of maps.
package bucketname

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Name is a policy and a key. Hash is that of store.Request.Hash: it costs half of what a hash made here does, because a
// limiter makes that of its policy only once.
type Name struct {
	Policy, Key string
	Hash        uint64
}

// Of returns the name of the bucket that r asks.
func Of(r *store.Request) Name { return Name{r.Policy(), r.Key(), r.Hash()} }

// New returns the name of the bucket of a policy and key.
func New(policy, key string) Name {
	r := store.NewRequest(policy, key, bucket.Request{})
	return Of(&r)
}

// Clone returns n for keeping: its key may be a view of a buffer that its owner reuses.
func (n Name) Clone() Name { return Name{n.Policy, strings.Clone(n.Key), n.Hash} }
