// Package known remembers the policies of a store's limiters.
package known

import "sync"

// maxKnown bounds how many policies a store remembers. A service has a few.
const maxKnown = 1024

// Policies remembers the policies of a store's limiters, to warn of a likely mistake: limiters of one name share
// buckets, so they should have the same limits. The zero value is ready for use. It is safe for concurrent use.
type Policies struct {
	mu     sync.Mutex // guards all below
	limits map[string]any
	warned map[string]bool
}

// Note remembers the limits of a policy. If change is set, they replace the limits remembered before. Else, if the two
// differ, as same says, Note returns the remembered limits, once for each policy.
func (k *Policies) Note(policy string, limits any, same func(remembered any) bool, change bool) (before any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	remembered, ok := k.limits[policy]
	switch {
	case !ok && len(k.limits) >= maxKnown: // full: a policy more gets no warning
	case !ok || change:
		if k.limits == nil {
			k.limits, k.warned = make(map[string]any), make(map[string]bool)
		}
		k.limits[policy] = limits
	case !k.warned[policy] && !same(remembered):
		k.warned[policy] = true
		return remembered
	}
	return nil
}
