package redisstore_test

import (
	"context"
	"maps"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

// Operations that are decided at once: Allow in its forms, Peek, Debit, and a
// request that is repeated after its RetryAfter.

// amount is what a request takes: requests, and tokens, which is the other unit
// of simulations.
type amount struct{ n, tokens int64 }

const tokens = "tokens"

// units returns a as the library takes it. One request need not be mentioned.
func (a amount) units(h *handle) core.Units {
	u := core.Units{core.Requests: a.n}
	if a.tokens > 0 || len(h.tokens) > 0 && a.n == 1 {
		u[tokens] = a.tokens
	}
	if a.n == 1 {
		delete(u, core.Requests)
	}
	return u
}

// call counts a call to the library by h's process, which may now have a lease.
func (pl *player) call(h *handle) {
	pl.count++
	pl.decisions++
	pl.acted[h.p.id] = pl.count
	if h.p.lease > 0 && !pl.local() {
		h.p.mayLease, pl.leases = true, true
	}
}

// allow takes an amount. What Remaining promised an instant ago must be
// allowed.
func (pl *player) allow(h *handle, a amount) error {
	left, before := pl.left, pl.count
	pl.call(h)
	way, a, res, err := pl.take(h, a)
	pl.each = way == "AllowUnits" || (way == together || way == split) && a.tokens > 0
	defer func() { pl.each = false }()
	promised := left.h == h && left.count == before && left.at == pl.oracle.now && a.n <= left.n && a.tokens <= left.tokens
	pl.note("%28s %s.%s(%v): %s", pl.at(), h.name, way, a, outcome{&res, err})
	if err := pl.check(h, a, res, err); err != nil {
		return err
	}
	if way == split && res.Allowed {
		pl.drop(pl.taken[len(pl.taken)-1]) // res is of one part
	}
	cached := res.Source == core.FromDenyCache
	if promised && !res.Allowed && !(cached && pl.otherSince(h.p)) {
		return broken("Remaining", "%d were left an instant ago, but %v are denied", left.n, a)
	}
	if !res.Allowed {
		pl.denied = lastDenial{h, a, res.RetryAfter.Microseconds(), pl.count}
		if cached && pl.otherSince(h.p) {
			pl.denied.h = nil // it describes the state before that
		}
	}
	return nil
}

// take takes an amount in one of three ways, which must decide alike. It
// returns the amount without tokens if that way takes only requests.
func (pl *player) take(h *handle, a amount) (way string, took amount, res core.Result, err error) {
	ctx := context.Background()
	switch {
	case pl.decisions%4 == 1 || a.n == 0 && a.tokens > 0 && h.p.lease > 0:
		pl.marked = append(pl.marked, isUnits)
		pl.markTokens(a)
		res, err = h.AllowUnits(ctx, simulatedKey, a.units(h))
		return "AllowUnits", a, res, err
	case pl.decisions%4 == 2 && (h.p.lease == 0 || pl.local()) || a.n == 0: // tokens on lease are not there for several buckets
		pl.marked = append(pl.marked, isTogether)
		pl.markTokens(a)
		return pl.together(h, a)
	}
	res, err = h.AllowN(ctx, simulatedKey, a.n)
	return "AllowN", amount{n: a.n}, res, err
}

// The ways of together.
const together, split = "AllowTogether", "AllowTogether in two parts"

// together takes an amount together with another bucket that denies nothing: at
// times beside a key that can't be used and whose policy fails open, and at
// times in two charges.
func (pl *player) together(h *handle, a amount) (way string, took amount, res core.Result, err error) {
	charge := core.Charge{Limiter: h.Limiter, Key: simulatedKey, Cost: a.n}
	if a.tokens > 0 {
		charge.Units = core.Units{tokens: a.tokens}
		if a.n == 0 {
			charge.Units[core.Requests] = 0
		}
	}
	charges := []core.Charge{charge, {Limiter: h.p.other, Key: simulatedKey}}
	way = together
	switch variant := pl.decisions / 4 % 3; {
	case variant == 1:
		pl.marked = append(pl.marked, isBeside)
		if !pl.spoiled {
			pl.spoiled = true
			if err := pl.environment.spoil(); err != nil {
				return way, a, res, err
			}
		}
		charges = append(charges, core.Charge{Limiter: h.p.bad, Key: simulatedKey})
	case variant == 2 && a.n > 1:
		pl.marked = append(pl.marked, isSplit)
		way = split
		part := 1 + int64(pl.decisions)%(a.n-1)
		charges[0].Cost -= part
		charges = append(charges, core.Charge{Limiter: h.Limiter, Key: simulatedKey, Cost: part})
	}
	j, err := core.AllowTogether(context.Background(), charges...)
	if err != nil {
		return way, a, res, err
	}
	if last := j.Results[len(charges)-1]; way == together && len(charges) == 3 && last.Source != core.FromFailOpen {
		return way, a, res, broken("bad key", "it is decided by %v", last.Source)
	}
	return way, a, j.Results[0], nil
}

// markTokens marks an operation that takes tokens.
func (pl *player) markTokens(a amount) {
	if a.tokens > 0 {
		pl.marked = append(pl.marked, isTokens)
	}
}

// otherSince reports whether another process has made a call since the oldest
// denial that p's deny cache may repeat.
func (pl *player) otherSince(p *process) bool {
	for id, last := range pl.acted {
		if id != p.id && last > p.denied {
			return true
		}
	}
	return false
}

// again waits for a denial's RetryAfter and repeats the request, without
// others.
func (pl *player) again(d lastDenial) error {
	if d.retry <= 0 || !d.h.fits(d.a) || !pl.canMove(d.retry) {
		return nil
	}
	pl.marked = append(pl.marked, doRetry)
	pl.moveBy(d.retry)
	pl.call(d.h)
	res, err := d.h.AllowUnits(context.Background(), simulatedKey, d.a.units(d.h))
	pl.note("%28s %s.AllowUnits(%v): %s", pl.at(), d.h.name, d.a, outcome{&res, err})
	pl.each = true
	defer func() { pl.each = false }()
	if err := pl.check(d.h, d.a, res, err); err != nil {
		return err
	}
	if !res.Allowed {
		return broken("RetryAfter", "%v are denied after the RetryAfter of %v, without other requests", d.a, time.Duration(d.retry)*time.Microsecond)
	}
	return nil
}

func (pl *player) allowAll(h *handle) error {
	pl.call(h)
	res, err := hook.AllowAll.(func(*core.Limiter, context.Context, string) (core.Result, error))(h.Limiter, context.Background(), simulatedKey)
	pl.note("%28s %s.AllowAll: %s", pl.at(), h.name, outcome{&res, err})
	least := leastCapacity(h.requests)
	if err == nil && res.Cost != least {
		return broken("AllowAll", "the cost is %d, want %d", res.Cost, least)
	}
	return pl.check(h, amount{n: least}, res, err)
}

// atMost calls AllowAtMost. No limit may have more than it got.
func (pl *player) atMost(h *handle, most int64) error {
	pl.call(h)
	res, err := h.AllowAtMost(context.Background(), simulatedKey, most)
	pl.note("%28s %s.AllowAtMost(%d): %d, %s", pl.at(), h.name, most, res.Cost, outcome{&res, err})
	switch {
	case err != nil:
	case !res.Allowed:
		return pl.check(h, amount{n: 1}, res, err)
	case res.Cost < 1 || res.Cost > most:
		return broken("AtMost", "got %d of %d", res.Cost, most)
	case res.Cost < most && (leftOf(h, res).n > 0 || pl.surelyAll(h, amount{n: res.Cost + 1}, pl.oracle.now)):
		return broken("AtMost", "got %d of %d, and %d are left", res.Cost, most, leftOf(h, res).n)
	}
	return pl.check(h, amount{n: res.Cost}, res, err)
}

// charge calls Debit or DebitUnits. Every limit then has so many tokens less,
// unless there were leases: these end with it.
func (pl *player) charge(h *handle, a amount) error {
	before, err := pl.peek(h)
	if err != nil {
		return err
	}
	pl.call(h)
	if a.tokens == 0 {
		err = h.Debit(context.Background(), simulatedKey, a.n)
	} else {
		pl.markTokens(a)
		u := core.Units{core.Requests: a.n, tokens: a.tokens}
		maps.DeleteFunc(u, func(_ string, n int64) bool { return n == 0 })
		err = h.DebitUnits(context.Background(), simulatedKey, u)
	}
	pl.note("%28s %s.Debit(%v): %v", pl.at(), h.name, a, err)
	if err != nil {
		return broken("an error", "Debit: %v", err)
	}
	pl.debit(h.requests, a.n)
	pl.debit(h.tokens, a.tokens)
	pl.touch(h.rules)
	pl.wrote(h.rules)
	after, err := pl.peek(h)
	owes := false
	for i := 0; err == nil && !pl.leases && i < len(h.rules); i++ {
		n := a.of(&h.rules[i])
		owes = owes || n > before.Limits()[i].Remaining
		if had, has := before.Limits()[i].Remaining, after.Limits()[i].Remaining; has != max(0, had-n) {
			err = broken("Debit", "%q had %d tokens and has %d after a debit of %d", h.rules[i].name, had, has, n)
		}
	}
	if err != nil || !owes {
		return err
	}
	return pl.refused(h)
}

// refused checks that a debt denies a request, whatever unit is owed.
func (pl *player) refused(h *handle) error {
	pl.call(h)
	res, err := h.AllowN(context.Background(), simulatedKey, 1)
	pl.note("%28s %s.AllowN(1): %s", pl.at(), h.name, outcome{&res, err})
	if err == nil && res.Allowed {
		return broken("Debit", "a request is allowed, though the bucket is in debt")
	}
	return pl.check(h, amount{n: 1}, res, err)
}

// of returns what a takes from a limit.
func (a amount) of(x *limitRule) int64 {
	if x.unit == tokens {
		return a.tokens
	}
	return a.n
}

// peek calls Peek. No limit may have less than it must.
func (pl *player) peek(h *handle) (core.Result, error) {
	pl.call(h)
	res, err := h.Peek(context.Background(), simulatedKey)
	pl.note("%28s %s.Peek: %s", pl.at(), h.name, outcome{&res, err})
	if err != nil {
		return res, broken("an error", "Peek: %v", err)
	}
	limits := res.Limits()
	for i, x := range h.rules {
		if pl.surely(h.rules[i:i+1], limits[i].Remaining+1, pl.oracle.now) {
			return res, broken("tokens lost", "%q has %d tokens and must have more", x.name, limits[i].Remaining)
		}
	}
	pl.seen(h.rules)
	pl.noteLeft(h, res)
	return res, pl.sane(h, amount{}, res)
}
