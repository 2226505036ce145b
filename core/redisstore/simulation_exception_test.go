package redisstore_test

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Operations that change a process's exceptions: other limits for the key,
// before those of its policy and of limits given to WithLimits; and a block.

// setException has the key of p follow a list, whatever its policy says, or
// ends that. What was used stays used.
func (pl *player) setException(p *process, exception int) error {
	return pl.changeLimits(p, func() error {
		pl.note("%28s p%d: exception by list %d", pl.at(), p.id, exception-1)
		return pl.except(p, exception, false)
	})
}

// except sets the exceptions of p.
func (pl *player) except(p *process, exception int, blocked bool) error {
	pl.count++
	e := core.Exceptions{}
	if exception > 0 {
		e.Overrides = map[string][]core.Limit{simulatedKey: named(simulatedPolicy, pl.simulation.lists[(exception-1)%len(pl.simulation.lists)])}
	}
	if blocked {
		e.Blocked = []string{simulatedKey}
	}
	if err := pl.environment.except(p, e); err != nil {
		return broken("an error", "exceptions: %v", err)
	}
	p.exception = exception
	for _, h := range p.handles() {
		h.setRules(h.ownList, h.override)
	}
	return nil
}

// blockAndUnblock blocks the key in h's process, and ends that. All is denied
// meanwhile, nothing is taken, and what was taken before comes back.
func (pl *player) blockAndUnblock(h *handle, o op) error {
	before, err := pl.peek(h)
	if err != nil {
		return err
	}
	pl.note("%28s p%d: block", pl.at(), h.p.id)
	if err := pl.except(h.p, h.p.exception, true); err != nil {
		return err
	}
	ctx := context.Background()
	cost := 1 + o.n*int64(o.pick%3)
	pl.call(h)
	res, err := h.AllowN(ctx, simulatedKey, cost)
	if err == nil && o.pick%2 == 0 {
		var joint core.JointResult
		joint, err = core.AllowTogether(ctx, core.Charge{Limiter: h.Limiter, Key: simulatedKey}, core.Charge{Limiter: h.p.other, Key: simulatedKey})
		if res.Allowed = res.Allowed || joint.Allowed; joint.RetryAfter != core.Never {
			res.RetryAfter = joint.RetryAfter
		}
	}
	if err == nil && o.pick%5 == 0 {
		var r *core.Reservation
		r, err = h.Reserve(ctx, simulatedKey, cost)
		res.Allowed = res.Allowed || r.OK()
	}
	pl.note("%28s %s.AllowN(%d): %s", pl.at(), h.name, cost, outcome{&res, err})
	if err != nil || res.Allowed || res.RetryAfter != core.Never || res.Source == core.FromLease {
		return broken("block", "a blocked key: %v, %v", outcome{&res, err}, err)
	}
	pl.seen(h.rules)
	if !pl.leases {
		after, err := pl.peek(h)
		if err != nil {
			return err
		}
		for i, l := range after.Limits() {
			if had := before.Limits()[i].Remaining; l.Remaining != had {
				return broken("block", "%q had %d, and has %d while it is blocked", l.Limit.Name, had, l.Remaining)
			}
		}
	}
	if o.kind = []opKind{doUndo, doCancel, doCorrect, doRefund}[o.pick/2%4]; o.kind == doRefund && pl.local() {
		o.kind = doUndo
	}
	if err := pl.giveBack(h, o); err != nil {
		return err
	}
	pl.note("%28s p%d: the block ends", pl.at(), h.p.id)
	return pl.except(h.p, h.p.exception, false)
}
