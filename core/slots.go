package core

import (
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// hasSlots reports whether r took slots.
func (r *Result) hasSlots() bool { return r.maxHold() > 0 }

// hasEstimates reports whether r took estimates that come back after MaxHold.
func (r *Result) hasEstimates() bool {
	return r.held != nil && r.taken() && slices.ContainsFunc(r.plan.Rates, func(rate bucket.Rate) bool { return rate.Hold > 0 && !rate.Slots })
}

// maxHold returns the shortest MaxHold of r's slots; 0 if it has none.
func (r *Result) maxHold() (shortest time.Duration) {
	if r.held == nil || !r.taken() || r.plan.slots == nil {
		return 0
	}
	for i := range r.plan.Rates {
		rate := &r.plan.Rates[i]
		if hold := duration(rate.Hold); rate.Slots && r.held.tokens(r.plan, i) > 0 && (shortest == 0 || hold < shortest) {
			shortest = hold
		}
	}
	return shortest
}

// slotsTaken returns how many slots r took, of all limits in flight, and for how long it holds them: until the longest MaxHold.
func (r *Result) slotsTaken() (n int64, hold time.Duration) {
	if !r.hasSlots() {
		return 0, 0
	}
	for i := range r.plan.Rates {
		if rate := &r.plan.Rates[i]; rate.Slots {
			n, hold = n+r.costOf(i), max(hold, duration(rate.Hold))
		}
	}
	return n, hold
}
