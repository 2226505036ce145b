package core

import (
	"log/slog"
	"slices"
	"sync"
)

// maxNamed bounds what a store remembers of its policies. A service has a few.
const maxNamed = 1024

// named is what a store knows of the policies that limiters were made with: limiters of one name share buckets, so
// different limits under one name are mostly a mistake. Its zero value is ready for use, by many goroutines.
type named struct {
	mu     sync.Mutex // guards all below
	limits map[string][]Limit
	told   map[string]bool
}

// note notes the limits of a policy, and returns those that were noted before if they differ and nobody was told yet.
// change says that they replace what was noted.
func (n *named) note(policy string, limits []Limit, change bool) (before []Limit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.limits[policy]
	switch {
	case !ok && len(n.limits) >= maxNamed:
	case !ok || change:
		if n.limits == nil {
			n.limits, n.told = make(map[string][]Limit), make(map[string]bool)
		}
		n.limits[policy] = limits
	case !n.told[policy] && !slices.Equal(known, limits):
		n.told[policy] = true
		return known
	}
	return nil
}

// register notes l's policy with its store, and warns of another limiter of the same name with other limits. It
// does not if the limits replace what the policy had.
func (l *Limiter) register(change bool) {
	s, ok := l.store.(interface{ policies() *named })
	if !ok {
		return
	}
	rules := l.rules.Load()
	before := s.policies().note(rules.policy.Name, rules.plan.limits, change)
	if before == nil {
		return
	}
	logger := l.watch.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("ratelimit: two limiters of one store have the same policy name and different limits, so they share buckets: give each policy a name of its own, or use WithLimits",
		"policy", rules.policy.Name, "limits", slices.Clone(rules.plan.limits), "before", before)
}
