// Package series keeps what metrics packages hold for each series of decisions, so that counting a
// decision allocates nothing.
package series

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Other stands for the policy and the limit of decisions beyond a [Cache]'s bound.
const Other = "(other)"

// Key is what a decision is counted under. Keys of clients are not in it: there is no bound on those.
type Key struct {
	Policy, Limit string
	Outcome       core.Outcome
	Source        core.Source
}

// Of is the key of an observation.
func Of(o *core.Observation) Key { return Key{o.Policy, o.Limit, o.Outcome, o.Source} }

// Cache holds a V for each of a bounded number of keys. It is safe for concurrent use.
type Cache[V any] struct {
	create func(Key) V
	most   int

	// known is never written to: it is replaced by a copy, since decisions by far outnumber new series.
	known atomic.Pointer[map[Key]V]
	mu    sync.Mutex // serialises replacements
}

// New returns a Cache of values made by create, called once for a key. Of keys beyond the first most,
// policy and limit become [Other].
func New[V any](most int, create func(Key) V) *Cache[V] {
	c := &Cache[V]{create: create, most: most}
	c.known.Store(&map[Key]V{})
	return c
}

// Get returns k's value.
func (c *Cache[V]) Get(k Key) V {
	known := *c.known.Load()
	if v, ok := known[k]; ok {
		return v
	}
	if len(known) >= c.most {
		k.Policy, k.Limit = Other, Other
		if v, ok := known[k]; ok {
			return v
		}
	}
	return c.add(k)
}

func (c *Cache[V]) add(k Key) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := *c.known.Load()
	if _, ok := known[k]; !ok && len(known) >= c.most {
		k.Policy, k.Limit = Other, Other
	}
	if v, ok := known[k]; ok { // added meanwhile
		return v
	}
	v, next := c.create(k), maps.Clone(known)
	next[k] = v
	c.known.Store(&next)
	return v
}
