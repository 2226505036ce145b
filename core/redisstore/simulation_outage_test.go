package redisstore_test

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Operations while the store is away. Each process then decides by its
// fallback, whose buckets have an oracle of their own.

// outageStore is a store that can't answer while it is away.
type outageStore struct {
	core.Store
	away bool
}

func (s *outageStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.away {
		return store.Answer{}, errAway
	}
	return s.Store.Do(ctx, r)
}

func (s *outageStore) DoTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	if s.away {
		return nil, errAway
	}
	return s.Store.(store.JointStore).DoTogether(ctx, requests)
}

// Config returns the store's, for the fallback's clock.
func (s *outageStore) Config() *store.Config { return s.Store.(store.Configured).Config() }

// inOutage says which operations are also drawn while the store is away.
var inOutage = map[opKind]bool{
	doAllow: true, doAll: true, doPeek: true, doReserve: true, doWait: true, doAtMost: true, doRetry: true,
	doCancel: true, doUndo: true, doCorrect: true, doExcept: true, doBlock: true,
}

// outage calls act while p's store is away, so that p's fallback decides. If
// answers is true the store is there again: act then gives back what the
// fallback admitted, which must go to the fallback.
func (pl *player) outage(p *process, answers bool, act func() error) error {
	pl.marked = append(pl.marked, isFallback)
	pl.count++ // what the store said last does not count here
	pl.oracle, p.outages.away = p.local, !answers
	defer func() {
		pl.oracle, p.outages.away = pl.shared, false
		pl.count++
	}()
	return act()
}

// local reports whether a fallback decides.
func (pl *player) local() bool { return pl.oracle != pl.shared }

// everyOracle calls do with the oracles of the store and of all fallbacks.
func (pl *player) everyOracle(do func(*oracle)) {
	do(pl.shared)
	for _, p := range pl.procs {
		if p != nil {
			do(p.local)
		}
	}
}

// recoverLocal is recover for the fallbacks.
func (pl *player) recoverLocal() error {
	for _, p := range pl.procs {
		if p.outages == nil {
			continue
		}
		err := pl.outage(p, false, func() error {
			if _, err := pl.peek(p.base); err != nil || !pl.canMove(pl.longestWait()) {
				return err
			}
			pl.moveBy(pl.longestWait())
			return pl.full(p.base, "recovery of the fallback")
		})
		if err != nil {
			return err
		}
	}
	return nil
}
