package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Engine decides the requests of one middleware. It is safe for concurrent use.
type Engine[C any] struct {
	rules   []Rule[C]
	limiter *core.Limiter // of the first rule
	options Options[C]

	middleware
}

// New returns an engine. It panics if an argument is wrong, as [net/http.ServeMux.Handle] does, because that is a
// mistake in the program. The panic value is an error that joins a [core.ConfigError] for each mistake: a nil
// limiter, a nil key, and a key, cost or limits function that was made from bad arguments (see [ArgumentError]).
func New[C any](limiter *core.Limiter, key func(C) (string, error), options Options[C]) *Engine[C] {
	rule := Rule[C]{limiter, key}
	if err := errors.Join(rule.mistakes("New limiter", "New key"), options.mistakes(), options.unitMistakes([]Rule[C]{rule}, "New limiter")); err != nil {
		refuseArguments(err)
	}
	return &Engine[C]{rules: []Rule[C]{rule}, limiter: limiter, options: options}
}

// Logger returns where the middleware logs: to the logger of its limiter, of several the first's, else to that of the limiter's
// store, else to [slog.Default].
func (e *Engine[C]) Logger() *slog.Logger { return logger(e.limiter) }

// Begin decides a request and sets the header fields of the response. c is what the user's functions receive, and x is
// the same request as the engine reads it until Begin returns. A request is also Allowed, without a decision, if Skip
// selects it or if the policy is in shadow mode and there is no decision. It costs one decision. A request that the
// framework routes again, as gin's HandleContext does, passes without another one: each middleware decides a request once.
func (e *Engine[C]) Begin(c C, x Request) (v Verdict) {
	if e.options.Skip != nil && e.options.Skip(c) {
		return Verdict{}
	}
	before := x.Decision()
	if before.madeBy(&e.middleware) {
		return Verdict{}
	}
	v.ctx, v.limiter = x.Context(), e.limiter
	var fromUser bool
	var err error
	if len(e.rules) == 1 {
		fromUser, err = e.decide(c, &v)
	} else {
		fromUser, err = decideTogether(e.rules, &e.options, c, &v, &joint{by: &e.middleware}, func(missing error) {
			e.warnNoKey.Do(func() {
				e.warn(&Verdict{Status: core.ProblemOf(missing).Status, Err: missing}, x, shadowMessage, "RL708")
			})
		})
	}
	outer, advice := takeMarkers(x, before, e.Logger)
	if advice != "" {
		v.advice, v.path = advice, x.Path()
	}
	if err != nil {
		fail(e.options, c, &v, err, fromUser)
		e.warnRefused(&v, x)
		if e.shadow() {
			return Verdict{} // shadow mode refuses no request, even if its context has ended
		}
		if errors.Is(err, core.ErrUnavailable) {
			x.Response().Set("Retry-After", unavailableRetryAfter)
			x.Response().Set("Cache-Control", "no-store")
		}
		return v
	}
	e.answer(&v, x, outer)
	if !v.Result.Allowed {
		v.Outcome = Denied
	}
	return v
}

// unavailableRetryAfter is the Retry-After, in seconds, while the store does not answer: it may return at any time.
const unavailableRetryAfter = "1"

// decide sets the Result and the decision of v. fromUser reports whether err is from a function of the user.
func (e *Engine[C]) decide(c C, v *Verdict) (fromUser bool, err error) {
	key, err := call(e.rules[0].Key, c)
	if err != nil {
		return true, err
	}
	take, err := e.options.charge(c)
	if err != nil {
		return true, err
	}
	limiter := e.limiter
	if e.options.Limits != nil {
		limits, err := e.options.Limits(c)
		if err != nil {
			return true, functionError{"limits", err}
		}
		if limits != nil {
			if limiter, err = e.limiter.WithLimits(limits...); err != nil {
				return false, err
			}
		}
	}
	now := limiter
	if e.options.Units != nil && (take.units == nil || take.all) { // what it takes depends on the policy, which may change meanwhile
		now = limiter.Snapshot()
		if take.units == nil && !counts(now, "", core.Requests) {
			take.units = core.Units{} // there is nothing to take from a policy that counts no requests
		}
	}
	ctx := e.options.deciding(v.ctx)
	switch {
	case take.units != nil:
		v.Result, err = now.AllowUnits(ctx, key, take.unitsOf(now, key))
	case take.all:
		v.Result, err = allowAll(now, ctx, key)
	default:
		v.Result, err = now.AllowN(ctx, key, take.cost)
	}
	if err != nil {
		return false, err
	}
	v.limiter, v.key = limiter, key
	return false, nil
}

// warnRefused logs the first refusal of each kind that nothing else reports: a request without a usable key, and in
// shadow mode a request that an enforced policy would refuse.
func (e *Engine[C]) warnRefused(v *Verdict, x Request) {
	shadow := e.shadow()
	switch {
	case v.Status == http.StatusInternalServerError && shadow:
		e.warnShadowError.Do(func() { e.warn(v, x, shadowMessage, "RL708") })
	case v.Status < http.StatusInternalServerError && shadow:
		e.warnNoKey.Do(func() { e.warn(v, x, shadowMessage, "RL708") })
	case v.Status == http.StatusBadRequest && !v.AsIs:
		e.warnNoKey.Do(func() { e.warn(v, x, noKeyMessage, "RL707") })
	}
}

const (
	shadowMessage = "ratelimit: shadow mode allowed a request that an enforced policy refuses; logged once per middleware"
	noKeyMessage  = "ratelimit: a request was refused because it has no usable key; logged once per middleware"
)

// shadow reports whether all policies are in shadow mode.
func (e *Engine[C]) shadow() bool {
	for _, r := range e.rules {
		if !r.Limiter.Policy().Shadow {
			return false
		}
	}
	return true
}

func (e *Engine[C]) warn(v *Verdict, x Request, message, code string) {
	e.Logger().Warn(message, "code", code, "policy", e.limiter.Name(), "status", v.Status, "path", x.Path(), "error", v.Err)
}

// answer stores the decision with the request, in front of outer, and sets the header fields of the response. It logs
// once that one policy charged a request twice for the same key, as happens if the same middleware is installed for a
// group and for a route in it.
func (e *Engine[C]) answer(v *Verdict, x Request, outer *Decision) {
	if v.joint != nil {
		v.joint.answer(x, outer)
		return
	}
	warnTwice(&e.warnTwice, x, outer, v.limiter, v.key)
	d := Decision{kept: keep(v.Result), limiter: v.limiter, key: v.key, outer: outer, by: &e.middleware}
	if writesHeaders(v.Result) {
		d := &decided{Decision: d}
		v.decision = &d.Decision
		writeHeaders(v.Result, &d.room, x.Response())
	} else {
		d := d
		v.decision = &d
	}
	x.SetDecision(v.decision)
}

// WantsStatus reports whether Done needs the status of the response.
func (e *Engine[C]) WantsStatus(v Verdict) bool {
	return v.charged() && (e.options.Refund != nil || e.options.Settle != nil || v.advice != "" && !e.warnedRoute.Load())
}

// Done ends an Allowed request that was answered with status. If the user's Refund returns true, it returns the
// tokens to the buckets, even if the client has gone. It reports whether it did. If there is a Settle, it settles what the
// request took. It does nothing for a request that was not charged.
func (e *Engine[C]) Done(c C, v Verdict, status int) (refunded bool) {
	if !v.charged() {
		return false
	}
	if informational(status) {
		status = http.StatusOK // net/http sends 200 after an informational status
	}
	e.warnUnrouted(&v, status)
	if e.options.Settle != nil {
		e.settle(c, &v, status)
	}
	if e.options.Refund == nil || !e.options.Refund(c, status) {
		return false
	}
	// The error is dropped: the response is on its way, and the buckets refill in time.
	ctx := context.WithoutCancel(v.ctx)
	if v.joint != nil {
		_ = v.joint.result.Undo(ctx)
	} else {
		res := v.decision.result()
		_ = res.Undo(ctx)
	}
	return true
}

// settle settles what a request took, also if the client has gone. A failure is logged and counted, a panic too: the response
// is on its way, and the client is not to blame.
func (e *Engine[C]) settle(c C, v *Verdict, status int) {
	const message, code = "ratelimit: what a request took could not be settled", "RL710"
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("panic: %v", p)
			e.Logger().ErrorContext(v.ctx, message, "code", code, "policy", e.limiter.Name(), "error", err, "stack", string(debug.Stack()))
			if v.joint != nil {
				unsettled(v.ctx, v.joint.result, err)
			} else {
				unsettled(v.ctx, core.JointResult{Results: []core.Result{v.decision.result()}}, err)
			}
		}
	}()
	units := e.options.Settle(c, status)
	if units == nil {
		return
	}
	ctx := context.WithoutCancel(v.ctx)
	var err error
	if v.joint != nil {
		err = v.joint.result.Settle(ctx, units)
	} else {
		res := v.decision.result()
		err = res.Settle(ctx, units)
	}
	if err != nil {
		e.Logger().ErrorContext(v.ctx, message, "code", code, "policy", e.limiter.Name(), "error", err)
	}
}

// Settles reports whether Done must be called when the response of v is over, and not as soon as its status is known.
func (e *Engine[C]) Settles(v Verdict) bool { return v.charged() && e.options.Settle != nil }

// warnUnrouted logs once that a request got a status as if it had a route although ByRoute found none.
func (e *Engine[C]) warnUnrouted(v *Verdict, status int) {
	if v.advice == "" || status >= http.StatusBadRequest || !e.warnedRoute.CompareAndSwap(false, true) {
		return
	}
	e.Logger().Warn("ratelimit: ByRoute found no route here, so all such requests share one bucket: "+v.advice,
		"code", "RL705", "policy", e.limiter.Name(), "path", v.path)
}

// StatusHook is Done for frameworks that report a status when the response is written and may replace it before it
// is sent. The hook that it returns calls Done once for each new status. It stops after a refund and after a status
// that was sent, because the client gets no other. If that was an informational one, such as 103, net/http sends 200 after
// it. The hook is not safe for concurrent use.
func (e *Engine[C]) StatusHook(c C, v Verdict) func(status int, sent bool) {
	ended, last := false, 0
	return func(status int, sent bool) {
		if ended || informational(status) && !sent {
			return
		}
		if status == last {
			ended = sent
			return
		}
		// If Refund panics, the status of the recovery must not call it again.
		ended, last = true, status
		ended = e.Done(c, v, status) || sent
	}
}

// informational reports whether another status follows status, as after 103 (RFC 9110, section 15.2).
func informational(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}
