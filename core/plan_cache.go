package core

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// maxPlans bounds a planCache. A service has a few plans or tiers; one that makes up limits for each
// request still gets right answers, at the cost of making the plan each time.
const maxPlans = 1024

// planCache remembers the plans of limits that were given per request, all scaled by the same share.
type planCache struct {
	mu    sync.RWMutex
	plans map[uint64][]cachedPlan // by a hash of the limits
	count int
}

type cachedPlan struct {
	limits []Limit // as given
	plan   *plan
}

var planSeed = maphash.MakeSeed()

// get returns the plan of limits scaled by share.
func (c *planCache) get(policy string, limits []Limit, share float64) (*plan, []error) {
	var h maphash.Hash
	h.SetSeed(planSeed)
	for i := range limits {
		maphash.WriteComparable(&h, limits[i])
	}
	sum := h.Sum64()

	c.mu.RLock()
	for _, known := range c.plans[sum] {
		if slices.Equal(known.limits, limits) {
			c.mu.RUnlock()
			return known.plan, nil
		}
	}
	c.mu.RUnlock()

	if errs := limitMistakes(policy, limits, "WithLimits"); len(errs) > 0 {
		return nil, errs
	}
	limits = slices.Clone(limits)
	for i := range limits { // names may be views of a buffer that its owner reuses
		limits[i].Name = strings.Clone(limits[i].Name)
	}
	p := makePlan(policy, scaled(limits, share))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= maxPlans || c.plans == nil {
		c.plans, c.count = make(map[uint64][]cachedPlan), 0
	}
	for _, known := range c.plans[sum] { // another goroutine may have been quicker
		if slices.Equal(known.limits, limits) {
			return known.plan, nil
		}
	}
	c.plans[sum] = append(c.plans[sum], cachedPlan{limits, p})
	c.count++
	return p, nil
}
