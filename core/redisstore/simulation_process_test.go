package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The processes of a simulation. Each has limiters with a store of its own on the environment's shared buckets. The player asks
// them, and the checker looks here for what the caches of each, leases and denials, may still say.

// process is a running proc.
type process struct {
	proc
	id             int
	store          core.Store
	outages        *outageStore       // nil: the store is never away
	local          *oracle            // of the fallback
	base           *handle            // the limiter of its policy
	other          *core.Limiter      // of another policy, which denies nothing
	bad            *core.Limiter      // of a policy that fails open
	tiers          map[[2]int]*handle // by list and override
	list, override int                // of its policy
	exception      int                // before these, in all its limiters; 0: none; i: lists[i-1]
	onDecision     func()             // called by the observer

	mayLease    bool  // it has asked its store, so it may have leases
	oldLease    int64 // how many tokens a lease from before a reset may still have
	oldLeaseEnd int64 // when that lease ends

	denied       int   // player.count at the oldest denial that its deny cache may repeat
	deniedAt     int64 // when that was, in effective µs
	deniedBefore int   // denied before that: if the clock steps back, its denial holds again
}

// handle is a limiter and its current rules.
type handle struct {
	*core.Limiter
	p        *process
	name     string
	list     int // below 0: those of an override or an exception
	rules    []limitRule
	ownList  int // list and rules without an exception
	own      []limitRule
	player   *player
	requests []limitRule // those that count requests
	tokens   []limitRule // and those that count tokens
}

// setRules sets the rules that h has unless there is an exception.
func (h *handle) setRules(list int, rules []limitRule) {
	h.ownList, h.own = list, rules
	if h.p.exception > 0 {
		list, rules = h.player.effective(0, h.p.exception)
	}
	h.list, h.rules = list, rules
	h.requests, h.tokens = counting(rules, core.Requests), counting(rules, tokens)
}

// handles returns the limiters of p.
func (p *process) handles() []*handle { return append(slices.Collect(maps.Values(p.tiers)), p.base) }

// effective returns the rules of a key under a list and an override, which comes first. 0: there is no override.
func (pl *player) effective(list, override int) (int, []limitRule) {
	if override == 0 {
		return list, pl.rules[list]
	}
	list = (override - 1) % len(pl.rules)
	return -1 - list, pl.rules[list]
}

// onFailure is what limiters do while their store is away.
func (pl *player) onFailure() core.FailureMode {
	if pl.simulation.outages {
		return core.FailLocal
	}
	return core.FailClosed
}

// policy returns a policy of a list and an override.
func (pl *player) policy(list, override int) core.Policy {
	p := core.Policy{Name: simulatedPolicy, Limits: pl.simulation.lists[list], OnFailure: pl.onFailure()}
	if override > 0 {
		p.Overrides = map[string][]core.Limit{simulatedKey: pl.simulation.lists[(override-1)%len(pl.simulation.lists)]}
	}
	return p
}

// run starts a process.
func (pl *player) run(i int, spec proc) error {
	p := &process{proc: spec, id: i, tiers: make(map[[2]int]*handle), override: spec.override}
	p.store = pl.environment.store(spec)
	used := p.store
	if pl.simulation.outages {
		p.outages = &outageStore{Store: p.store}
		used = p.outages
	}
	p.local = &oracle{now: pl.shared.now, wall: pl.shared.wall}
	p.local.reset()
	list := spec.list % len(pl.simulation.lists)
	p.list = list
	observer := core.WithObserver(func(context.Context, core.Observation) {
		if p.onDecision != nil {
			p.onDecision()
		}
	})
	l, err := core.NewLimiter(used, pl.policy(list, p.override), observer, silent)
	if err != nil {
		return broken("an error", "NewLimiter: %v", err)
	}
	if p.other, err = core.NewLimiter(used, core.Policy{Name: "wide", Limits: []core.Limit{core.PerSecond(1e9)}, OnFailure: pl.onFailure()}); err != nil {
		return broken("an error", "NewLimiter: %v", err)
	}
	if p.bad, err = core.NewLimiter(used, core.Policy{Name: "bad", Limits: []core.Limit{core.PerSecond(1)}, OnFailure: core.FailOpen}); err != nil {
		return broken("an error", "NewLimiter: %v", err)
	}
	p.base = &handle{Limiter: l, p: p, player: pl, name: fmt.Sprintf("p%d", i)}
	p.base.setRules(pl.effective(list, p.override))
	pl.procs[i] = p
	return nil
}

// handle returns the limiter that o uses.
func (pl *player) handle(p *process, o op) (*handle, error) {
	if o.tier == 0 {
		return p.base, nil
	}
	pl.marked = append(pl.marked, isTier)
	list := (o.tier - 1) % len(pl.simulation.lists)
	tier := [2]int{list, p.override}
	if p.tiers[tier] == nil {
		l, err := p.base.WithLimits(pl.simulation.lists[list]...)
		if err != nil {
			return nil, broken("an error", "WithLimits: %v", err)
		}
		h := &handle{Limiter: l, p: p, player: pl, name: fmt.Sprintf("p%d.WithLimits(list %d)", p.id, list)}
		h.setRules(pl.effective(list, p.override))
		p.tiers[tier] = h
	}
	return p.tiers[tier], nil
}

// silent drops warnings: policies of one name and other limits are what simulations are about.
var silent = core.WithLogger(slog.New(slog.DiscardHandler))
