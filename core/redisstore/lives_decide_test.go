package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// call counts a call that a process makes to the library.
func (pl *player) call(h *handle) {
	pl.count++
	pl.decisions++
	pl.acted[h.p.id] = pl.count
	if h.p.lease > 0 {
		h.p.asked, pl.leases = true, true
	}
}

func (pl *player) allow(h *handle, n int64) error {
	left := pl.left
	promised := left.h == h && left.count == pl.count && left.at == pl.oracle.now && n <= left.n
	pl.call(h)
	way, res, err := pl.take(h, n)
	pl.note("%28s %s.%s(%d): %s", pl.at(), h.name, way, n, outcome{&res, err})
	if err := pl.judge(h, n, res, err); err != nil {
		return err
	}
	cached := res.Source == core.FromDenyCache
	if promised && !res.Allowed && !(cached && pl.otherSince(h.p)) {
		return broken("Remaining", "%d were left an instant ago, but %d are denied", left.n, n)
	}
	if !res.Allowed {
		pl.denied = lastDenial{h, n, res.RetryAfter.Microseconds(), pl.count}
		if cached && pl.otherSince(h.p) {
			pl.denied.h = nil // it describes the state before that
		}
	}
	return nil
}

// take takes n tokens in one of three ways, which must decide alike.
func (pl *player) take(h *handle, n int64) (way string, res core.Result, err error) {
	ctx := context.Background()
	switch {
	case pl.decisions%4 == 1:
		pl.now = append(pl.now, isUnits)
		res, err = h.AllowUnits(ctx, livesKey, core.Units{core.Requests: n})
		return "AllowUnits", res, err
	case pl.decisions%4 == 2 && h.p.lease == 0: // tokens on lease are not there for several buckets
		pl.now = append(pl.now, isTogether)
		j, err := core.AllowTogether(ctx, core.Charge{Limiter: h.p.wide, Key: livesKey}, core.Charge{Limiter: h.Limiter, Key: livesKey, Cost: n})
		if err != nil {
			return "AllowTogether", res, err
		}
		return "AllowTogether", j.Results[1], nil
	}
	res, err = h.AllowN(ctx, livesKey, n)
	return "AllowN", res, err
}

// otherSince reports whether another process has made a call since the store last denied a request of p.
func (pl *player) otherSince(p *process) bool {
	for id, last := range pl.acted {
		if id != p.id && last > p.heard {
			return true
		}
	}
	return false
}

// again waits for a denial's RetryAfter and repeats the request, without others.
func (pl *player) again(d lastDenial) error {
	if d.retry <= 0 || d.n > leastCapacity(d.h.rules) {
		return nil
	}
	pl.now = append(pl.now, doRetry)
	pl.moveBy(d.retry)
	pl.call(d.h)
	res, err := d.h.AllowN(context.Background(), livesKey, d.n)
	pl.note("%28s %s.AllowN(%d): %s", pl.at(), d.h.name, d.n, outcome{&res, err})
	if err := pl.judge(d.h, d.n, res, err); err != nil {
		return err
	}
	if !res.Allowed {
		return broken("RetryAfter", "%d tokens are denied after the RetryAfter of %v, without other requests", d.n, time.Duration(d.retry)*time.Microsecond)
	}
	return nil
}

func (pl *player) allowAll(h *handle) error {
	pl.call(h)
	res, err := h.AllowAll(context.Background(), livesKey)
	pl.note("%28s %s.AllowAll: %s", pl.at(), h.name, outcome{&res, err})
	least := leastCapacity(h.rules)
	if err == nil && res.Cost != least {
		return broken("AllowAll", "the cost is %d, want %d", res.Cost, least)
	}
	return pl.judge(h, least, res, err)
}

// atMost calls AllowAtMost. No limit may have more than it got.
func (pl *player) atMost(h *handle, most int64) error {
	pl.call(h)
	res, err := h.AllowAtMost(context.Background(), livesKey, most)
	pl.note("%28s %s.AllowAtMost(%d): %d, %s", pl.at(), h.name, most, res.Cost, outcome{&res, err})
	switch {
	case err != nil:
	case !res.Allowed:
		return pl.judge(h, 1, res, err)
	case res.Cost < 1 || res.Cost > most:
		return broken("AtMost", "got %d of %d", res.Cost, most)
	case res.Cost < most && (res.Remaining > 0 || pl.surely(h.rules, res.Cost+1, pl.oracle.now)):
		return broken("AtMost", "got %d of %d, and %d are left", res.Cost, most, res.Remaining)
	}
	return pl.judge(h, res.Cost, res, err)
}

// charge calls Debit. Without leases, which end with it, every limit then has so many tokens less.
func (pl *player) charge(h *handle, n int64) error {
	before, err := pl.peek(h)
	if err != nil {
		return err
	}
	pl.call(h)
	err = h.Debit(context.Background(), livesKey, n)
	pl.note("%28s %s.Debit(%d): %v", pl.at(), h.name, n, err)
	if err != nil {
		return broken("an error", "Debit: %v", err)
	}
	pl.debit(h.rules, n)
	pl.wrote(h.rules)
	after, err := pl.peek(h)
	for i := 0; err == nil && !pl.leases && i < len(h.rules); i++ {
		if had, has := before.Limits()[i].Remaining, after.Limits()[i].Remaining; has != max(0, had-n) {
			err = broken("Debit", "%q had %d tokens and has %d after a debit of %d", h.rules[i].name, had, has, n)
		}
	}
	return err
}

func (pl *player) peek(h *handle) (core.Result, error) {
	pl.call(h)
	res, err := h.Peek(context.Background(), livesKey)
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
	pl.tell(h, res)
	return res, pl.sane(h, 0, res)
}

// tell records how many tokens a store says are left.
func (pl *player) tell(h *handle, res core.Result) {
	pl.left = leftover{h: nil, n: res.Remaining}
	if res.Source == core.FromStore && res.Allowed { // a denial's Remaining is that of the limit with the longest delay
		pl.left = leftover{h, res.Remaining, pl.oracle.now, pl.count}
	}
}

// judge checks a decision on n tokens against the promises.
func (pl *player) judge(h *handle, n int64, res core.Result, err error) error {
	if err != nil {
		return broken("an error", "%v", err)
	}
	if err := pl.sane(h, n, res); err != nil {
		return err
	}
	pl.tell(h, res)
	if !res.Allowed {
		pl.retry = res.RetryAfter.Microseconds()
		if p := h.p; res.Source == core.FromStore && (p.heard == 0 || pl.oracle.now > p.since+time.Second.Microseconds()) {
			p.heard, p.since = pl.count, pl.oracle.now
		}
		if err := pl.denial(h, n, res); err != nil {
			return err
		}
		if res.Source != core.FromDenyCache {
			pl.seen(h.rules)
		}
		return nil
	}
	k := &taking{h: h, n: n, res: res, backs: len(pl.stepsBack), era: pl.era}
	pl.taken = append(pl.taken, k)
	if pl.onOldLease(h.p, n, res.Source) {
		k.lent = true
		return nil
	}
	k.g, err = pl.admit(h.rules, n, pl.oracle.now, false, res.Source == core.FromStore)
	return err
}

// onOldLease reports whether n tokens are from a lease that is older than a reset and still in use.
func (pl *player) onOldLease(p *process, n int64, s core.Source) bool {
	if s != core.FromLease {
		return false
	}
	pl.now = append(pl.now, isLease)
	if n > p.lent || pl.oracle.now >= p.until {
		return false
	}
	p.lent -= n
	return true
}

// denial checks that a denial and its delay have a reason.
func (pl *player) denial(h *handle, n int64, res core.Result) error {
	tooLarge := n > leastCapacity(h.rules)
	if tooLarge != (res.RetryAfter == core.Never) {
		return broken("RetryAfter", "%v for %d tokens of %d", res.RetryAfter, n, leastCapacity(h.rules))
	}
	cached := res.Source == core.FromDenyCache
	if tooLarge || cached && pl.otherSince(h.p) {
		return nil // a deny cache may repeat a denial that is older than other processes' calls
	}
	if !cached && pl.surely(h.rules, n, pl.oracle.now) {
		return broken("tokens lost", "%d tokens are denied and must be there", n)
	}
	if pl.surely(h.rules, n, pl.oracle.now+res.RetryAfter.Microseconds()-1) {
		return broken("RetryAfter", "%v for %d tokens, which must be there before", res.RetryAfter, n)
	}
	return nil
}

// sane checks a result by itself.
func (pl *player) sane(h *handle, n int64, res core.Result) error {
	limits := res.Limits()
	if len(limits) != len(h.rules) {
		return broken("Result", "has %d limits, want %d", len(limits), len(h.rules))
	}
	for i, x := range h.rules {
		if limits[i].Limit.Name != x.name || limits[i].Remaining < 0 || limits[i].Remaining > x.capacity {
			return broken("Result", "has limit %q with %d left, want %q of %d", limits[i].Limit.Name, limits[i].Remaining, x.name, x.capacity)
		}
	}
	if n > 0 && res.Allowed != (res.RetryAfter == 0) || res.Allowed && n > leastCapacity(h.rules) {
		return broken("Result", "allowed %v, retry after %v, of %d tokens", res.Allowed, res.RetryAfter, n)
	}
	return nil
}

// ask calls Reserve for n tokens.
func (pl *player) ask(h *handle, n int64) error {
	pl.call(h)
	r, err := h.Reserve(context.Background(), livesKey, n)
	if err != nil {
		return broken("an error", "Reserve: %v", err)
	}
	pl.note("%28s %s.Reserve(%d): ok %v, delay %v", pl.at(), h.name, n, r.OK(), r.Delay())
	least := leastCapacity(h.rules)
	if !r.OK() {
		pl.seen(h.rules)
		if n <= least && pl.promised() <= least {
			return broken("Reserve", "%d tokens can't be reserved, but twice the capacity can always be promised", n)
		}
		return nil
	}
	delay := r.Delay().Microseconds()
	if n > least || delay < 0 {
		return broken("Reserve", "%d tokens of %d, after %v", n, least, r.Delay())
	}
	if delay > 0 && !pl.behind(h.rules) && pl.surely(h.rules, n, pl.oracle.now+delay-1) {
		return broken("tokens lost", "%d tokens are promised after %v and must be there before", n, r.Delay())
	}
	k := &taking{h: h, n: n, r: r, res: r.Result(), backs: len(pl.stepsBack), era: pl.era}
	pl.taken = append(pl.taken, k)
	if pl.onOldLease(h.p, n, r.Result().Source) {
		k.lent = true
		return nil
	}
	k.g, err = pl.reserve(h.rules, n, delay, r.Result().Source == core.FromStore)
	return err
}

// promised returns how many tokens are promised ahead.
func (pl *player) promised() (n int64) {
	for _, g := range pl.reserved {
		if g.at > pl.oracle.now {
			n += g.n
		}
	}
	return n
}

// behind reports whether a reservation under rules must wait for an earlier one.
func (pl *player) behind(rules []limitRule) bool {
	return slices.ContainsFunc(pl.reserved, func(g *grant) bool {
		return (!g.undone || g.kept) && g.at > pl.oracle.now && shareName(g.rules, rules)
	}) || slices.ContainsFunc(rules, func(x limitRule) bool { tl := pl.lines[x.name]; return tl != nil && tl.delayed() })
}

// wait calls WaitN and cancels it once it waits. It peeks first.
func (pl *player) wait(h *handle, n int64) error {
	res, err := pl.peek(h)
	if err != nil {
		return err
	}
	there := res.Allowed && res.Remaining >= n && !pl.behind(h.rules)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	h.p.told = leave
	defer func() { h.p.told = nil }()
	pl.call(h)
	err = h.WaitN(ctx, livesKey, n)
	pl.note("%28s %s.WaitN(%d), canceled if it has to wait: %v", pl.at(), h.name, n, err)
	switch {
	case n > leastCapacity(h.rules):
		if !errors.Is(err, core.ErrCapacity) {
			return broken("Wait", "%d tokens, more than the capacity: %v", n, err)
		}
	case err == nil && !there:
		pl.unclear = true // the wait was so short that it ended before it could be canceled
	case err == nil:
		_, err = pl.reserve(h.rules, n, 0, true)
		return err
	case !errors.Is(err, context.Canceled) && !errors.Is(err, core.ErrPromised):
		return broken("an error", "WaitN: %v", err)
	case there:
		return broken("Wait", "%d tokens are there, but WaitN waits", n)
	default: // its tokens were promised, and given back
		pl.touch(h.rules)
		pl.returned = pl.oracle.now
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
