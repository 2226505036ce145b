package redisstore_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The checker: the player gives each answer of the library to check. It looks
// at the result by itself (sane), and asks the oracle whether as much may be
// admitted (oracle.admit), or whether a denial and its RetryAfter have a reason
// (denial). What was taken it adds to the player's takings, from which later
// operations give back.

// noteLeft records how many tokens a store says are left.
func (pl *player) noteLeft(h *handle, res core.Result) {
	pl.left = leftover{amount: leftOf(h, res)}
	if byBucket(res.Source) && res.Allowed { // a denial may be one because of a debt
		pl.left = leftover{h, pl.left.amount, pl.oracle.now, pl.count}
	}
}

// leftOf returns how much every limit has left.
func leftOf(h *handle, res core.Result) amount {
	left := amount{never, never}
	for i, l := range res.Limits() {
		if h.rules[i].unit == tokens {
			left.tokens = min(left.tokens, l.Remaining)
		} else {
			left.n = min(left.n, l.Remaining)
		}
	}
	if left.tokens == never {
		left.tokens = 0
	}
	return left
}

// surelyAll reports whether the limits of h must have an amount at an instant.
// A debt in one unit denies all requests.
func (pl *player) surelyAll(h *handle, a amount, at int64) bool {
	return pl.surely(h.requests, a.n, at) && pl.surely(h.tokens, a.tokens, at)
}

// fits reports whether no limit is too small for an amount.
func (h *handle) fits(a amount) bool {
	return a.n <= leastCapacity(h.requests) && (len(h.tokens) == 0 || a.tokens <= leastCapacity(h.tokens))
}

// check checks a decision on an amount against the promises.
func (pl *player) check(h *handle, a amount, res core.Result, err error) error {
	if err != nil {
		return broken("an error", "%v", err)
	}
	if err := pl.sane(h, a, res); err != nil {
		return err
	}
	pl.noteLeft(h, res)
	if !res.Allowed {
		pl.retry = res.RetryAfter.Microseconds()
		if p := h.p; res.Source == core.FromStore && (p.denied == 0 || pl.oracle.now > p.deniedAt+time.Second.Microseconds()) {
			p.deniedBefore, p.denied, p.deniedAt = p.denied, pl.count, pl.oracle.now
		}
		if err := pl.denial(h, a, res); err != nil {
			return err
		}
		if res.Source != core.FromDenyCache {
			pl.seen(h.rules)
		}
		return nil
	}
	k := &taking{h: h, amount: a, res: res, under: h.rules, each: pl.each, local: pl.local(), backs: len(pl.stepsBack), era: pl.era}
	pl.taken = append(pl.taken, k)
	if pl.onOldLease(h.p, a.n, res.Source) {
		k.lent = true
		return nil
	}
	sure := byBucket(res.Source) && (a.n > 0 || a.tokens > 0)
	pl.touch(h.rules)
	k.g, err = pl.admit(h.requests, a.n, pl.oracle.now, false, sure)
	var other error
	k.t, other = pl.admit(h.tokens, a.tokens, pl.oracle.now, false, sure)
	if sure {
		pl.wrote(h.rules)
	}
	return cmp.Or(err, other)
}

// onOldLease reports whether n tokens are from a lease that is older than a
// reset and still in use.
func (pl *player) onOldLease(p *process, n int64, s core.Source) bool {
	if s != core.FromLease {
		return false
	}
	pl.marked = append(pl.marked, isLease)
	if n > p.oldLease || pl.oracle.now >= p.oldLeaseEnd {
		return false
	}
	p.oldLease -= n
	return true
}

// denial checks that a denial and its delay have a reason.
func (pl *player) denial(h *handle, a amount, res core.Result) error {
	tooLarge := !h.fits(a)
	if tooLarge != (res.RetryAfter == core.Never) {
		return broken("RetryAfter", "%v for %v", res.RetryAfter, a)
	}
	cached := res.Source == core.FromDenyCache
	if tooLarge || cached && pl.otherSince(h.p) {
		return nil // a deny cache may repeat a denial that is older than other processes' calls
	}
	if !cached && pl.surelyAll(h, a, pl.oracle.now) {
		return broken("tokens lost", "%v are denied and must be there", a)
	}
	if pl.surelyAll(h, a, pl.oracle.now+res.RetryAfter.Microseconds()-1) {
		return broken("RetryAfter", "%v for %v, which must be there before", res.RetryAfter, a)
	}
	return nil
}

// leasable reports whether requests on the limits of h may be decided on a
// lease.
func (h *handle) leasable() bool {
	return !slices.ContainsFunc(h.rules, func(x limitRule) bool { return x.unit != core.Requests || x.calendar != nil })
}

// byBucket reports whether a bucket decided, not what a process remembers of
// it.
func byBucket(s core.Source) bool { return s == core.FromStore || s == core.FromFallback }

// sane checks a result by itself.
func (pl *player) sane(h *handle, a amount, res core.Result) error {
	if (res.Source == core.FromFallback) != pl.local() {
		return broken("an error", "decided by %v, because %v", res.Source, res.Cause)
	}
	if res.Source == core.FromLease && !h.leasable() {
		return broken("lease", "limits of other units or on a calendar are decided without leases")
	}
	limits := res.Limits()
	if len(limits) != len(h.rules) {
		return broken("Result", "has %d limits, want %d", len(limits), len(h.rules))
	}
	for i, x := range h.rules {
		if limits[i].Limit.Name != x.name || limits[i].Remaining < 0 || limits[i].Remaining > x.capacity {
			return broken("Result", "has limit %q with %d left, want %q of %d", limits[i].Limit.Name, limits[i].Remaining, x.name, x.capacity)
		}
	}
	if (a.n > 0 || a.tokens > 0) && res.Allowed != (res.RetryAfter == 0) || res.Allowed && !h.fits(a) {
		return broken("Result", "allowed %v, retry after %v, of %v", res.Allowed, res.RetryAfter, a)
	}
	if left := leftOf(h, res); res.Allowed && res.Remaining != left.n && (len(h.tokens) == 0 || res.Remaining != left.tokens) {
		return broken("Result", "%d are left, and of its limits %v", res.Remaining, left)
	}
	return nil
}

// outcome formats a decision for the log.
type outcome struct {
	res *core.Result
	err error
}

func (o outcome) String() string {
	if o.err != nil {
		return o.err.Error()
	}
	left := ""
	for _, l := range o.res.Limits() {
		left += fmt.Sprintf(", %q has %d", l.Limit.Name, l.Remaining)
	}
	if o.res.Allowed {
		return fmt.Sprintf("allowed by %v%s", o.res.Source, left)
	}
	return fmt.Sprintf("denied by %v, retry after %v%s", o.res.Source, o.res.RetryAfter, left)
}
