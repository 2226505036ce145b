package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Operations that promise tokens ahead: Reserve and WaitN.

// lifetime is how far ahead tokens can always be promised: almost 100 years.
const lifetime = 90 * 365 * 24 * time.Hour

// ask calls Reserve for n tokens.
func (pl *player) ask(h *handle, n int64) error {
	pl.call(h)
	r, err := h.Reserve(context.Background(), simulatedKey, n)
	if err != nil {
		return broken("an error", "Reserve: %v", err)
	}
	pl.note("%28s %s.Reserve(%d): ok %v, delay %v", pl.at(), h.name, n, r.OK(), r.Delay())
	least := leastCapacity(h.requests)
	if !r.OK() {
		pl.seen(h.rules)
		if n <= least && pl.promised() <= least && r.Delay() <= lifetime { // what former limits lent may take longer than can be promised
			return broken("Reserve", "%d tokens can't be reserved, but twice the capacity can always be promised", n)
		}
		return nil
	}
	delay := r.Delay().Microseconds()
	if n > least || delay < 0 {
		return broken("Reserve", "%d tokens of %d, after %v", n, least, r.Delay())
	}
	if delay > 0 && !pl.behind(h.rules) && pl.surelyAll(h, amount{n: n}, pl.oracle.now+delay-1) {
		return broken("tokens lost", "%d tokens are promised after %v and must be there before", n, r.Delay())
	}
	k := &taking{h: h, amount: amount{n: n}, r: r, res: r.Result(), under: h.rules, local: pl.local(), backs: len(pl.stepsBack), era: pl.era}
	pl.taken = append(pl.taken, k)
	if pl.onOldLease(h.p, n, r.Result().Source) {
		k.lent = true
		return nil
	}
	k.g, err = pl.reserve(h, n, delay, byBucket(r.Result().Source))
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

// behind reports whether a reservation under rules must wait for an earlier
// one.
func (pl *player) behind(rules []limitRule) bool {
	return slices.ContainsFunc(pl.reserved, func(g *grant) bool {
		return (!g.undone || g.kept) && g.at > pl.oracle.now && shareName(g.rules, rules)
	}) || slices.ContainsFunc(rules, func(x limitRule) bool { tl := pl.timelines[x.name]; return tl != nil && tl.delayed() })
}

// wait calls WaitN and cancels it once it waits. It peeks first.
func (pl *player) wait(h *handle, n int64) error {
	res, err := pl.peek(h)
	if err != nil {
		return err
	}
	there := res.Allowed && leftOf(h, res).n >= n && !pl.behind(h.rules)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	h.p.onDecision = leave
	defer func() { h.p.onDecision = nil }()
	pl.call(h)
	began := time.Now()
	err = h.WaitN(ctx, simulatedKey, n)
	pl.note("%28s %s.WaitN(%d), canceled if it has to wait: %v", pl.at(), h.name, n, err)
	switch {
	case n > leastCapacity(h.requests):
		if !errors.Is(err, core.ErrCapacity) {
			return broken("Wait", "%d tokens, more than the capacity: %v", n, err)
		}
	case err == nil && !there:
		pl.unclear = true // the wait was so short that it ended before it could be canceled
	case err == nil:
		_, err = pl.reserve(h, n, 0, true)
		return err
	case errors.Is(err, core.ErrDeadline) && !there: // more than a hundred years
		pl.seen(h.rules)
	case !errors.Is(err, context.Canceled) && !errors.Is(err, core.ErrPromised):
		return broken("an error", "WaitN: %v", err)
	case there:
		return broken("Wait", "%d tokens are there, but WaitN waits", n)
	case time.Since(began) >= 50*time.Millisecond: // so long it waits at most for its tokens to be given back
		pl.unclear = true
	default: // its tokens were promised, and given back
		pl.touch(h.rules)
		pl.returned = pl.oracle.now
	}
	return nil
}
