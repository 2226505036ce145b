package main

import (
	"fmt"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// saysBlocked is what is said of a key that somebody blocks.
func saysBlocked(by string) string { return "denied: " + by + " blocks this key" }

// saysState is the state of a bucket in a sentence. res is what
// [core.Limiter.Peek] returned, and unused whether the store has no
// bucket.
func saysState(res core.Result, unused bool) string {
	full := true
	var worst, least *core.LimitResult
	limits := res.Limits()
	for i := range limits {
		l := &limits[i]
		if l.Violated && (worst == nil || l.RetryAfter > worst.RetryAfter) {
			worst = l
		}
		full = full && l.ResetAfter == 0 && l.Remaining == l.Limit.Capacity
		if least == nil || share(l) < share(least) {
			least = l
		}
	}
	switch {
	case worst != nil:
		return "denied: " + why(worst)
	case unused:
		return "allowed: never used, or not since it was full"
	case full:
		return "allowed: full"
	}
	what := "tokens"
	if least.Limit.Mode == core.Concurrent {
		what = "slots"
	}
	return fmt.Sprintf("allowed: %s of %s %s left of %s", show.Count(least.Remaining), show.Count(least.Limit.Capacity), what, least.Limit.Name)
}

func share(l *core.LimitResult) float64 {
	return float64(l.Remaining-l.Debt) / float64(l.Limit.Capacity)
}

func why(l *core.LimitResult) string {
	name, capacity := l.Limit.Name, l.Limit.Capacity
	wait, next := show.Wait(l.RetryAfter), "next token"
	if l.Limit.MaxHold > 0 && l.Limit.Mode != core.Concurrent { // estimates may be settled earlier
		wait += " at the latest"
	}
	switch {
	case l.Limit.Mode == core.Concurrent:
		return fmt.Sprintf("all %s of %s are in use; the next is free in %s at the latest, or when a request ends", show.Some(capacity, "slot"), name, wait)
	case l.Debt > 0:
		return fmt.Sprintf("%s owes %s, %s in %s", name, show.Some(l.Debt, "token"), next, wait)
	}
	return fmt.Sprintf("%s is used up, %s in %s", name, next, wait)
}
