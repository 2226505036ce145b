package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// comparedModes are the modes, in the order in which the page shows them.
var comparedModes = []core.Mode{core.Continuous, core.Stepped, core.Aligned}

// comparison is the first limit in each mode, side by side. Every request asks all three, whatever becomes of it.
type comparison struct {
	limiters []*core.Limiter
}

// comparedStores keep their buckets, in this process, when settings change.
type comparedStores struct {
	mu     sync.Mutex
	stores []core.Store
}

// refill makes the buckets of all modes full.
func (c *comparedStores) refill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores = nil
	for range comparedModes {
		c.stores = append(c.stores, core.NewMemoryStore())
	}
}

// compare makes the comparison of settings, or none if one of the modes can't have this limit.
func (c *comparedStores) compare(s settings) *comparison {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := &comparison{}
	for i, mode := range comparedModes {
		limit := s.limit().WithMode(mode).WithName("demo")
		if mode != core.Aligned && limit.RefillInterval%core.Month == 0 {
			limit.RefillInterval -= time.Microsecond // the months of the calendar are aligned
		}
		limiter, err := core.NewLimiter(c.stores[i], core.Policy{Name: "mode-" + strings.ToLower(mode.String()), Limits: []core.Limit{limit}})
		if err != nil {
			return nil
		}
		list.limiters = append(list.limiters, limiter)
	}
	return list
}

// decide is what each mode decides about a request of anybody's.
func (c *comparison) decide(ctx context.Context, s settings) (allowed []bool) {
	if c == nil {
		return nil
	}
	for _, l := range c.limiters {
		res, err := l.AllowN(ctx, together, s.Cost)
		allowed = append(allowed, err == nil && res.Allowed)
	}
	return allowed
}

// states are the modes' buckets.
func (c *comparison) states(ctx context.Context, now *scene) (list []bucketState) {
	if c == nil {
		return []bucketState{}
	}
	for i, l := range c.limiters {
		res, err := l.Peek(ctx, together)
		if err != nil {
			continue
		}
		b := stateOf(res, now, "", strings.ToLower(comparedModes[i].String()), "")
		b.Policy = l.Name()
		list = append(list, b)
	}
	return list
}
