package store

import "sync"

const maxPolicies = 1024 // that a store remembers; a service has a few

// policies remembers the policies of a store's limiters, to warn of limiters of
// one name, which share buckets, with other limits. The zero value is ready for
// use. It is safe for concurrent use.
type policies struct {
	mu     sync.Mutex // guards all below
	limits map[string]any
	warned map[string]bool
}

// Note remembers the limits of a policy, and with change in place of those
// remembered before. Else, if the two differ, as same says, it returns the
// remembered limits, once for each policy.
func (p *policies) Note(policy string, limits any, same func(remembered any) bool, change bool) (before any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	remembered, ok := p.limits[policy]
	switch {
	case !ok && len(p.limits) >= maxPolicies: // full: a policy more gets no warning
	case !ok || change:
		if p.limits == nil {
			p.limits, p.warned = make(map[string]any), make(map[string]bool)
		}
		p.limits[policy] = limits
	case !p.warned[policy] && !same(remembered):
		p.warned[policy] = true
		return remembered
	}
	return nil
}
