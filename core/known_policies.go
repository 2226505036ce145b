package core

import (
	"log/slog"
	"slices"
	"sync"
)

// maxKnown bounds the policies that a store remembers. A service has a few.
const maxKnown = 1024

// knownPolicies is what a store remembers of its limiters' policies. Limiters of one name share buckets, so different
// limits under one name are mostly a mistake. Its zero value is ready for use, by many goroutines.
type knownPolicies struct {
	mu     sync.Mutex // guards all below
	limits map[string][]Limit
	warned map[string]bool
}

// note remembers the limits of a policy. If they differ from those it remembered, and it did so for the first time, it
// returns the latter. With change set they replace what was remembered.
func (k *knownPolicies) note(policy string, limits []Limit, change bool) (before []Limit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.limits[policy]
	switch {
	case !ok && len(k.limits) >= maxKnown:
	case !ok || change:
		if k.limits == nil {
			k.limits, k.warned = make(map[string][]Limit), make(map[string]bool)
		}
		k.limits[policy] = limits
	case !k.warned[policy] && !slices.Equal(known, limits):
		k.warned[policy] = true
		return known
	}
	return nil
}

// warn notes the limits of a policy, and warns if another limiter has the same name and other limits. With change set
// the limits replace what the policy had.
func (k *knownPolicies) warn(logger *slog.Logger, policy string, limits []Limit, change bool) {
	before := k.note(policy, limits, change)
	if before == nil {
		return
	}
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("ratelimit: two limiters of one store have the same policy name and different limits, so they share buckets: give each policy a name of its own, or use WithLimits",
		"policy", policy, "limits", slices.Clone(limits), "before", before)
}
