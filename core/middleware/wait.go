package middleware

import (
	"context"
	"errors"

	"github.com/tokenbucket-go/ratelimit/core"
)

// askInTurn is ask for a request that waits. It is a function of its own because what its closure refers to is allocated.
func (e *Engine[C]) askInTurn(ctx context.Context, limiter *core.Limiter, key string, take charge) (res core.Result, err error) {
	err = wait(ctx, limiter, key, take.nothing(), func() (denied []core.Result, err error) {
		if res, err = e.ask(ctx, limiter, key, take); err == nil && !res.Allowed {
			denied = []core.Result{res}
		}
		return denied, err
	})
	return res, err
}

// await sets the decisions of a request that waits.
func (j *joint) await(ctx context.Context, deciding func(context.Context) context.Context, nothing bool, charges []core.Charge) error {
	return wait(ctx, j.rules[0].limiter, j.key(), nothing, func() (denied []core.Result, err error) {
		j.result, err = core.AllowTogether(deciding(ctx), charges...)
		return j.denied(), err
	})
}

// wait calls ask until it returns no denials, or waiting does not help: then the request is denied, as ask said last. Requests wait in
// their order, behind all others of limiter and key. So a request does not ask at once if others wait, unless it takes nothing.
func wait(ctx context.Context, limiter *core.Limiter, key string, nothing bool, ask func() (denied []core.Result, err error)) error {
	var denied []core.Result
	var err error
	if nothing || !waited(limiter, key) {
		if denied, err = ask(); err != nil || len(denied) == 0 {
			return err
		}
	}
	err = inTurn(limiter, ctx, key, denied, ask)
	if errors.Is(err, core.ErrDeadline) || errors.Is(err, core.ErrCapacity) {
		return nil
	}
	return err
}

// nothing reports whether a request takes nothing: it is denied only in debt.
func (t *charge) nothing() bool { return t.cost == 0 && t.units == nil && !t.all }
