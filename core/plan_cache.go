package core

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
)

// maxPlans bounds how many plans a planCache holds. A service has a few tiers. One that computes new limits for each
// request still gets correct decisions, but each of them costs making a plan.
const maxPlans = 1024

// planCache remembers the plans of limits that were given to WithLimits, all scaled by the same share. The zero value
// is ready for use. It is safe for concurrent use.
type planCache struct {
	mu    sync.RWMutex            // guards everything below
	plans map[uint64][]cachedPlan // by a hash of the limits
	count int                     // how many plans, under all hashes
}

type cachedPlan struct {
	limits []Limit // as given
	plan   *plan
}

var planSeed = maphash.MakeSeed()

// checked is get for limits that may have mistakes, or returns those.
func (c *planCache) checked(policy string, limits []Limit, share float64) (*plan, []error) {
	return c.find(policy, limits, share, true)
}

// get returns the plan of limits scaled by share. It allocates only for a new list of limits.
func (c *planCache) get(policy string, limits []Limit, share float64) *plan {
	p, _ := c.find(policy, limits, share, false)
	return p
}

func (c *planCache) find(policy string, limits []Limit, share float64, check bool) (*plan, []error) {
	var h maphash.Hash
	h.SetSeed(planSeed)
	for i := range limits {
		maphash.WriteComparable(&h, limits[i])
	}
	sum := h.Sum64()

	c.mu.RLock()
	for _, cached := range c.plans[sum] {
		if slices.Equal(cached.limits, limits) {
			c.mu.RUnlock()
			return cached.plan, nil
		}
	}
	c.mu.RUnlock()

	if check {
		if errs := limit.ListMistakes(policy, each(limits, Limit.plain), "WithLimits"); len(errs) > 0 {
			return nil, errs
		}
	}
	limits = slices.Clone(limits)
	for i := range limits { // they may be views of a buffer that its owner reuses
		limits[i].Name, limits[i].Unit = strings.Clone(limits[i].Name), strings.Clone(limits[i].Unit)
	}
	p := makePlan(policy, scaled(limits, share))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= maxPlans || c.plans == nil {
		c.plans, c.count = make(map[uint64][]cachedPlan), 0
	}
	for _, cached := range c.plans[sum] { // another goroutine may have added it meanwhile
		if slices.Equal(cached.limits, limits) {
			return cached.plan, nil
		}
	}
	c.plans[sum] = append(c.plans[sum], cachedPlan{limits, p})
	c.count++
	return p, nil
}
