package core

import (
	"log/slog"
	"slices"
	"sync"
)

// maxKnown bounds how many policies a store remembers. A service has a few.
const maxKnown = 1024

// knownPolicies remembers the policies of a store's limiters, to warn of a likely mistake: limiters of one name share
// buckets, so they should have the same limits. The zero value is ready for use. It is safe for concurrent use.
type knownPolicies struct {
	mu     sync.Mutex // guards all below
	limits map[string][]Limit
	warned map[string]bool
}

// note remembers the limits of a policy. If change is set, they replace the limits remembered before. Else, if the two
// differ, note returns the remembered limits, once for each policy.
func (k *knownPolicies) note(policy string, limits []Limit, change bool) (before []Limit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	remembered, ok := k.limits[policy]
	switch {
	case !ok && len(k.limits) >= maxKnown: // full: a policy more gets no warning
	case !ok || change:
		if k.limits == nil {
			k.limits, k.warned = make(map[string][]Limit), make(map[string]bool)
		}
		k.limits[policy] = limits
	case !k.warned[policy] && !slices.EqualFunc(remembered, limits, Limit.same):
		k.warned[policy] = true
		return remembered
	}
	return nil
}

// warn notes the limits of a policy. It logs a warning if another limiter has the same policy name and other limits.
// If change is set, the limits replace those noted before, without a warning.
func (k *knownPolicies) warn(logger *slog.Logger, policy string, limits []Limit, change bool) {
	before := k.note(policy, limits, change)
	if before == nil {
		return
	}
	logger.Warn("ratelimit: two limiters of one store have the same policy name and different limits, so they share buckets: give each policy a name of its own, or use WithLimits",
		"code", "RL706", "policy", policy, "limits", slices.Clone(limits), "before", before)
}
