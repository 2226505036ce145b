package redisstore_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Operations that give back what was taken, Cancel, Undo, Refund and Settle;
// and the end of a simulation, when all must come back.

// giveBack cancels, undoes, refunds or settles something that was taken.
func (pl *player) giveBack(h *handle, o op) error {
	may := slices.Clone(pl.taken)
	may = slices.DeleteFunc(may, func(k *taking) bool { return !pl.mayReturn(k, h, o.kind) })
	if len(may) == 0 {
		pl.marked = pl.marked[:0] // no operation
		return nil
	}
	k := may[o.pick%len(may)]
	pl.call(h)
	pl.returned = pl.oracle.now
	ctx := context.Background()
	switch o.kind {
	case doCancel:
		err := k.r.Cancel(ctx)
		pl.note("%28s %s.Cancel of %d due at %s: %v", pl.at(), k.h.name, k.n, k.due(), err)
		if err != nil {
			return broken("an error", "Cancel: %v", err)
		}
		pl.touch(common(k.h.rules, k.under))
		if k.g == nil || k.g.at >= pl.oracle.now { // it was not used
			pl.back(k, k.n, k.h.rules, false)
		}
		pl.drop(k)
	case doUndo:
		err := k.res.Undo(ctx)
		pl.note("%28s %s.Undo of %v taken at %s: %v", pl.at(), k.h.name, k.amount, k.due(), err)
		if err != nil {
			return broken("an error", "Undo: %v", err)
		}
		all := k.each && k.g != nil && shareName(k.h.rules, k.moves(k.amount))
		pl.back(k, k.n, k.h.rules, false)
		pl.backTokens(k, k.tokens)
		if pl.touch(common(k.h.rules, k.under)); all {
			pl.touch(k.h.rules) // all of them are written
		}
		pl.drop(k)
	case doCorrect:
		return pl.correct(k, o)
	case doRefund:
		n := 1 + int64(o.part*float64(k.n))
		n = min(n, k.n)
		err := h.Refund(ctx, simulatedKey, n)
		pl.note("%28s %s.Refund(%d) of %d taken at %s: %v", pl.at(), h.name, n, k.n, k.due(), err)
		if err != nil {
			return broken("an error", "Refund: %v", err)
		}
		k.touched = true
		pl.back(k, n, h.requests, k.r != nil)
		pl.touch(h.rules)
		if k.n == 0 {
			pl.drop(k)
		}
	}
	return nil
}

// due returns when k was taken or is due, for the log.
func (k *taking) due() fmt.Stringer {
	if k.g == nil {
		return beforeReset{}
	}
	return time.Duration(k.g.at) * time.Microsecond
}

type beforeReset struct{}

func (beforeReset) String() string { return "a time before a reset, on lease" }

// mayReturn reports whether a client may return k in this way: only what was
// taken, and only once.
func (pl *player) mayReturn(k *taking, h *handle, as opKind) bool {
	if k.h.p != h.p || k.local != pl.local() {
		return false // the client does not know what it took
	}
	switch as {
	case doCancel:
		// After its due instant a reservation is used, and Cancel does nothing.
		// If the clock was set back, no store knows that instant, so clients
		// don't cancel.
		return k.r != nil && !k.touched && (k.g == nil || k.g.at >= pl.oracle.now || k.backs == len(pl.stepsBack) && k.era == pl.era)
	case doUndo, doCorrect:
		if as == doCorrect && (k.r != nil || k.n < k.res.Cost) {
			return false
		}
		if k.r == nil {
			return !k.touched && k.era == pl.era // tokens taken before a reset must not be refunded
		}
		return !k.touched && (k.g == nil || k.g.at >= pl.oracle.now)
	}
	if k.n == 0 || k.era != pl.era || k.g == nil || k.g.at > pl.oracle.now {
		return false
	}
	// Every limit must have been charged.
	return !slices.ContainsFunc(h.requests, func(x limitRule) bool {
		return !slices.ContainsFunc(k.g.rules, func(y limitRule) bool { return x.name == y.name })
	})
}

// back records that n tokens of k came back to the limits in rules. The used
// part of a reservation stays used.
func (pl *player) back(k *taking, n int64, rules []limitRule, used bool) {
	if k.g == nil { // tokens on lease before a reset may still be used once
		pl.moved(n, k.h.rules)
	} else {
		pl.takeBack(k.g, n, rules, !pl.leases, used)
	}
	k.n -= n
}

// backTokens is back for tokens, which are never on lease.
func (pl *player) backTokens(k *taking, n int64) {
	if k.t != nil {
		pl.takeBack(k.t, n, k.h.rules, !pl.leases, false)
	}
}

// correct settles a decision with other amounts than were charged.
func (pl *player) correct(k *taking, o op) error {
	actual := amount{int64(o.part * 3 * float64(k.n)), k.tokens}
	if k.tokens > 0 && o.pick%3 > 0 {
		actual.tokens = int64(float64(o.pick%7) / 3 * float64(k.tokens))
	}
	if k.g == nil || k.n < k.res.Cost || k.tokens > 0 && o.pick%4 == 0 {
		actual.n = min(actual.n, k.n)
	}
	units := core.Units{core.Requests: actual.n}
	if actual.tokens != k.tokens {
		pl.markTokens(k.amount)
		units[tokens] = actual.tokens
	}
	err := k.res.Settle(context.Background(), units)
	pl.note("%28s %s.Settle(%v) of %v taken at %s: %v", pl.at(), k.h.name, actual, k.amount, k.due(), err)
	if err != nil {
		return broken("an error", "Settle: %v", err)
	}
	pl.drop(k)
	if k.g != nil && shareName(k.h.rules, k.moves(amount{k.n - actual.n, k.tokens - actual.tokens})) {
		pl.touch(k.h.rules) // all of them are written
	}
	switch {
	case actual.n < k.n:
		pl.back(k, k.n-actual.n, k.h.rules, false)
	case actual.n > k.n:
		pl.debit(common(k.h.rules, k.g.rules), actual.n-k.n)
	}
	switch {
	case actual.tokens < k.tokens:
		pl.backTokens(k, k.tokens-actual.tokens)
	case actual.tokens > k.tokens:
		pl.debit(common(k.h.rules, k.t.rules), actual.tokens-k.tokens)
	}
	return nil
}

// moves returns the limits whose tokens change if an amount comes back of what
// k took, or is charged on top.
func (k *taking) moves(change amount) (rules []limitRule) {
	if change.n != 0 {
		rules = counting(k.g.rules, core.Requests)
	}
	if change.tokens != 0 {
		rules = append(rules, counting(k.tokenRules(), tokens)...)
	}
	return rules
}

// tokenRules returns the limits that k took tokens from.
func (k *taking) tokenRules() []limitRule {
	if k.t == nil {
		return nil
	}
	return k.t.rules
}

func (pl *player) drop(k *taking) {
	pl.taken = slices.DeleteFunc(pl.taken, func(other *taking) bool { return other == k })
}

// recover ends a simulation. It waits until all debts, leases and refills are
// over, and then checks that every limit is full.
func (pl *player) recover() error {
	pl.marked = pl.marked[:0]
	if h := pl.procs[0].base; pl.simulation.last {
		res, err := pl.peek(h)
		if err != nil {
			return err
		}
		full := res.ResetAfter.Microseconds()
		if !pl.canMove(full) {
			return nil // the clock can't move that far
		}
		pl.moveBy(full)
		if err := pl.full(h, "ResetAfter, of "+res.ResetAfter.String()); err != nil {
			return err
		}
	}
	var all []*handle
	for _, p := range pl.procs {
		all = append(all, p.base)
		for list := range pl.simulation.lists {
			for override := range len(pl.simulation.lists) + 1 {
				if h := p.tiers[[2]int{list, override}]; h != nil {
					all = append(all, h)
				}
			}
		}
	}
	for _, h := range all { // a store notices a step back at its next request
		if _, err := pl.peek(h); err != nil {
			return err
		}
	}
	needs := pl.longestWait()
	if !pl.canMove(needs) {
		return nil // the clock can't move that far
	}
	pl.moveBy(needs)
	for _, h := range all {
		if err := pl.full(h, "recovery"); err != nil {
			return err
		}
	}
	return pl.allowAll(pl.procs[len(pl.procs)-1].base)
}

func (pl *player) full(h *handle, what string) error {
	res, err := pl.peek(h)
	if err != nil {
		return err
	}
	for i, l := range res.Limits() {
		if l.Remaining != h.rules[i].capacity {
			return broken("not full again", "%s: %q has %d of %d", what, l.Limit.Name, l.Remaining, l.Limit.Capacity)
		}
	}
	return nil
}

// longestWait returns how long the slowest limit takes at most to earn all
// promised tokens and fill up.
func (pl *player) longestWait() int64 {
	owed, last := pl.charged, int64(0)
	for _, g := range pl.reserved {
		owed += g.first
		due := g.at - pl.oracle.now
		for _, b := range pl.oracle.stepsBack {
			if g.asked <= b.at { // if no request noticed it, the reservation is due by the clock that was set back
				due += b.from - b.to
			}
		}
		last = max(last, due)
	}
	largest := int64(0) // what was used under one limit may come back at the rate of another
	for _, rules := range pl.rules {
		for _, x := range rules {
			largest = max(largest, x.capacity)
		}
	}
	slowest := new(big.Rat)
	for _, rules := range pl.rules {
		for _, x := range rules {
			num, den := x.perStep()
			takes := new(big.Rat).Mul(whole(2*largest+owed), big.NewRat(x.longestStep(), 1))
			takes.Mul(takes, big.NewRat(den, num))
			if takes.Add(takes, whole(2*x.longestStep())); takes.Cmp(slowest) > 0 {
				slowest = takes
			}
		}
	}
	return last + roundUp(slowest) + 2*(3*time.Second).Microseconds()
}
