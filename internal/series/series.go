// Package series holds what the metrics packages share, for it links neither of
// their libraries. Its Cache keeps the value of each series of decisions, so
// counting one allocates nothing.
package series

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Other is the policy and the limit of decisions beyond the bound of a [Cache].
const Other = "(other)"

// Key identifies a series of decisions. It does not contain the keys of
// clients, because their number has no bound.
type Key struct {
	Policy, Limit string
	Outcome       core.Outcome
	Source        core.Source
}

// Of returns the key of an observation.
func Of(o *core.Observation) Key { return Key{o.Policy, o.Limit, o.Outcome, o.Source} }

// Cache holds a V for each key, for a bounded number of keys. It is safe for
// concurrent use.
type Cache[V any] struct {
	create func(Key) V
	most   int

	// known is replaced by a copy when a key is added, and never changed. So
	// Get takes 25 ns. With a sync.RWMutex or a sync.Map it takes 60 ns, with 2
	// goroutines.
	known atomic.Pointer[map[Key]V]
	mu    sync.Mutex // held while known is replaced
}

// New returns a Cache that calls create once for each key. For keys beyond the
// first most, the policy and the limit become [Other].
func New[V any](most int, create func(Key) V) *Cache[V] {
	c := &Cache[V]{create: create, most: most}
	c.known.Store(&map[Key]V{})
	return c
}

// Get returns the value of k. It creates the value if needed.
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
	if v, ok := known[k]; ok { // another goroutine added it
		return v
	}
	v, next := c.create(k), maps.Clone(known)
	next[k] = v
	c.known.Store(&next)
	return v
}

// Tokens returns what a decision adds to the count of tokens: its cost, but at
// most its capacity. A client may choose the cost, for example as a
// Content-Length. A cost of 2^63-1 would overflow an integer counter, and a
// float64 counter would no longer change when 1 is added.
func Tokens(o *core.Observation) int64 { return max(0, min(o.Cost, o.Capacity)) }
