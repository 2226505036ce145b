package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// WantsEnd reports whether End must be called.
func (e *Engine[C]) WantsEnd(a *Admission) bool { return e.WantsStatus(a) || a.release != nil }

// WantsStatus reports whether End needs the status of the response.
func (e *Engine[C]) WantsStatus(a *Admission) bool {
	return a.Charged() && (e.options.Refund != nil || e.options.Settle != nil)
}

// WantsOver reports whether End must be called when the response is over, and
// not as soon as its status is known.
func (e *Engine[C]) WantsOver(a *Admission) bool {
	return a.Charged() && (e.options.Settle != nil || a.release != nil)
}

// End ends an Allowed request that was answered with status, in the protocol's
// terms. If the user's Refund returns true, it returns the tokens to the
// buckets, even if the client has gone. It reports whether it did. If there is
// a Settle, it settles what the request took. It releases the request's slots,
// without waiting for the store. It does nothing for a request that was not
// charged.
func (e *Engine[C]) End(c C, a *Admission, status int) (refunded bool) {
	if !a.Charged() {
		return false
	}
	if a.release != nil {
		defer a.release()
	}
	if e.options.Settle != nil {
		e.settle(c, a, status)
	}
	if e.options.Refund == nil || !e.options.Refund(c, status) {
		return false
	}
	res := a.Result()
	_ = res.Undo(context.WithoutCancel(a.ctx)) // the response is on its way, and the buckets refill in time
	return true
}

// settle settles what a request took, also if the client has gone. A failure is
// logged, a panic too: the response is on its way, and the client is not to
// blame.
func (e *Engine[C]) settle(c C, a *Admission, status int) {
	const message, code = "ratelimit: what a request took could not be settled", "RL710"
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic: %v", p)
			e.Report(slog.LevelError, message, code, "", "error", err, "stack", string(debug.Stack()))
		}
	}()
	units := e.options.Settle(c, status)
	res := a.Result()
	if units == nil && !slices.ContainsFunc(res.Limits(), func(l core.LimitResult) bool { return holdsEstimates(l.Limit) }) {
		return
	}
	// Without units, estimates stay charged that would come back after MaxHold,
	// unless the handler has settled or undone them.
	err := res.Settle(context.WithoutCancel(a.ctx), units)
	if err != nil && !(units == nil && errors.Is(err, core.ErrSettled)) {
		e.Report(slog.LevelError, message, code, "", "error", err)
	}
}
