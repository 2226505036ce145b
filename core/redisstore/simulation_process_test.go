package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The processes of a simulation. Each has limiters with a store of its own on
// the environment's shared buckets. The player asks them, and the checker looks
// here for what the caches of each, leases and denials, may still say.

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
	list     int // below 0: with an override or an exception
	rules    []limitRule
	ownList  int // without an exception
	override int // of its policy
	player   *player
	requests []limitRule // those that count requests
	tokens   []limitRule // and those that count tokens
}

// setRules sets the rules of h: those of a list, with an override of its
// policy, and with the exception that there is. 0: there is no override.
func (h *handle) setRules(list, override int) {
	h.ownList, h.override, h.list, h.rules = list, override, list, h.player.rules[list]
	for _, over := range []int{override, h.p.exception} {
		if over > 0 {
			over = (over - 1) % len(h.player.rules)
			h.list, h.rules = -1-over-len(h.player.rules)*max(h.list, -1-h.list), merged(h.rules, h.player.rules[over], func(x limitRule) string { return x.name })
		}
	}
	h.requests, h.tokens = counting(h.rules, core.Requests), counting(h.rules, tokens)
}

// merged returns a list in which the elements of an override stand in place of
// those of the same name, and the others behind them.
func merged[T any](list, override []T, name func(T) string) []T {
	list = slices.Clone(list)
	for _, x := range override {
		if i := slices.IndexFunc(list, func(of T) bool { return name(of) == name(x) }); i >= 0 {
			list[i] = x
		} else {
			list = append(list, x)
		}
	}
	return list
}

// named returns limits of a policy, each with its name.
func named(policy string, limits []core.Limit) []core.Limit {
	limits = slices.Clone(limits)
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: policy, Limits: limits}, silent))
	res := core.Must(l.Peek(context.Background(), "nobody"))
	for i, of := range res.Limits() {
		limits[i].Name = of.Limit.Name
	}
	return limits
}

// handles returns the limiters of p.
func (p *process) handles() []*handle { return append(slices.Collect(maps.Values(p.tiers)), p.base) }

// onFailure is what limiters do while their store is away.
func (pl *player) onFailure() core.FailureMode {
	if pl.simulation.outages {
		return core.FailLocal
	}
	return core.FailClosed
}

// policy returns a policy of a list and an override.
func (pl *player) policy(list, override int) core.Policy {
	p := core.Policy{Name: simulatedPolicy, Limits: pl.simulation.lists[list], OnFailure: pl.onFailure(), Plans: make(map[string][]core.Limit)}
	for i, limits := range pl.simulation.lists { // so that overrides and exceptions by any list name limits that there are
		p.Plans[fmt.Sprint(i)] = named(simulatedPolicy, limits)
	}
	if override > 0 {
		p.Overrides = map[string][]core.Limit{simulatedKey: named(simulatedPolicy, pl.simulation.lists[(override-1)%len(pl.simulation.lists)])}
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
	p.base.setRules(list, p.override)
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
		h.setRules(list, p.override)
		p.tiers[tier] = h
	}
	return p.tiers[tier], nil
}

// silent drops warnings: policies of one name and other limits are what
// simulations are about.
var silent = core.WithLogger(slog.New(slog.DiscardHandler))
