package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tokenbucket-go/ratelimit/core"
)

// process is a running proc.
type process struct {
	proc
	id    int
	store core.Store
	base  *handle
	wide  *core.Limiter // of another policy, which denies nothing
	tiers map[int]*handle
	told  func() // called by the observer
	lent  int64  // how many tokens a lease from before a reset may still have
	until int64  // when that lease ends
	asked bool
	heard int   // the count at the store's last denial: the oldest that a deny cache may repeat
	since int64 // when that was
}

// handle is a limiter and its current rules.
type handle struct {
	*core.Limiter
	p     *process
	name  string
	list  int
	rules []limitRule
}

// run starts a process.
func (pl *player) run(i int, spec proc) error {
	p := &process{proc: spec, id: i, tiers: make(map[int]*handle)}
	p.store = pl.world.store(spec)
	list := spec.list % len(pl.life.lists)
	observer := core.WithObserver(func(context.Context, core.Observation) {
		if p.told != nil {
			p.told()
		}
	})
	l, err := core.NewLimiter(p.store, core.Policy{Name: livesPolicy, Limits: pl.life.lists[list], OnFailure: core.FailClosed}, observer, silent)
	if err != nil {
		return broken("an error", "NewLimiter: %v", err)
	}
	if p.wide, err = core.NewLimiter(p.store, core.Policy{Name: "wide", Limits: []core.Limit{core.PerSecond(1e9)}, OnFailure: core.FailClosed}); err != nil {
		return broken("an error", "NewLimiter: %v", err)
	}
	p.base = &handle{l, p, fmt.Sprintf("p%d", i), list, pl.rules[list]}
	pl.procs[i] = p
	return nil
}

// handle returns the limiter that o uses.
func (pl *player) handle(p *process, o op) (*handle, error) {
	if o.tier == 0 {
		return p.base, nil
	}
	pl.now = append(pl.now, isTier)
	list := (o.tier - 1) % len(pl.life.lists)
	if p.tiers[list] == nil {
		l, err := p.base.WithLimits(pl.life.lists[list]...)
		if err != nil {
			return nil, broken("an error", "WithLimits: %v", err)
		}
		p.tiers[list] = &handle{l, p, fmt.Sprintf("p%d.WithLimits(list %d)", p.id, list), list, pl.rules[list]}
	}
	return p.tiers[list], nil
}

// silent drops warnings: policies of one name and other limits are what lives are about.
var silent = core.WithLogger(slog.New(slog.DiscardHandler))
