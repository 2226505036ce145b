// Package middleware decides requests behind limiters, whatever their protocol.
// A request is skipped or gets a key and a cost, is decided, and is settled or
// refunded when it has been answered. Package adapter adds what is HTTP. For
// interceptors of RPCs it has what their protocols share: a [Refusal] with its
// [Code], calls without header fields ([Inbound]), and the [Messages] of a
// stream.
//
// See [docs/adapters.md].
//
// [docs/adapters.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/adapters.md
package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Engine decides the requests of one middleware. It is safe for concurrent use.
type Engine[C any] struct {
	rules    []rule[C]
	limiter  *core.Limiter // of the first rule
	options  Options[C]
	protocol Protocol[C]

	middleware
}

// New returns an engine. It panics if an argument is wrong, as
// [net/http.ServeMux.Handle] does, because that is a mistake in the program.
// The panic value is an error that joins a [core.ConfigError] for each mistake:
// a nil limiter, a nil key, and a key, cost or limits function that was made
// from bad arguments (see [ArgumentError]).
func New[C any](limiter *core.Limiter, key func(C) (string, error), options Options[C], protocol Protocol[C]) *Engine[C] {
	only := rule[C]{limiter, key}
	if err := errors.Join(ruleMistakes(only, "New limiter", "New key"), options.mistakes(), options.unitMistakes([]rule[C]{only}, "New limiter")); err != nil {
		RefuseArguments(err)
	}
	return &Engine[C]{rules: []rule[C]{only}, limiter: limiter, options: options, protocol: protocol, middleware: middleware{warnings: new(warnings)}}
}

// InHandler returns an engine for one decision on key, within the handler of
// the request. It panics if limiter is nil. What else is wrong with limiter is
// the error of the decision: an app that runs must not panic because its policy
// was changed. Warnings are logged once for each policy.
func InHandler[C any](limiter *core.Limiter, key string, protocol Protocol[C]) *Engine[C] {
	only := rule[C]{limiter, func(C) (string, error) { return key, nil }}
	if err := ruleMistakes(only, "Allow limiter", ""); err != nil {
		RefuseArguments(err)
	}
	known, _ := inHandlers.LoadOrStore(limiter.Name(), new(warnings))
	return &Engine[C]{rules: []rule[C]{only}, limiter: limiter, protocol: protocol, middleware: middleware{known.(*warnings), true}}
}

// NewTogether returns an engine of several limiters that decide together: a
// request is allowed if all of them have the tokens, and takes nothing if not.
// See [core.AllowTogether]. It panics as [New] does, also without a rule, and
// with Plan or Limits.
func NewTogether[C any, K ~func(C) (string, error)](given []Rule[K], options Options[C], protocol Protocol[C]) *Engine[C] {
	var errs []error
	if len(given) == 0 {
		errs = append(errs, &core.ConfigError{Field: "NewTogether", Value: 0, Reason: "rules given: it needs at least one, a limiter and a key"})
	}
	rules, limiters := make([]rule[C], len(given)), make([]string, len(given))
	for i, r := range given {
		rules[i] = rule[C]{r.Limiter, r.Key}
		limiters[i] = fmt.Sprintf("NewTogether rules[%d].Limiter", i)
		errs = append(errs, ruleMistakes(rules[i], limiters[i], fmt.Sprintf("NewTogether rules[%d].Key", i)))
	}
	for _, option := range []struct {
		name  string
		given bool
	}{{"WithPlan", options.Plan != nil}, {"WithLimits", options.Limits != nil}} {
		if option.given {
			errs = append(errs, &core.ConfigError{Field: "NewTogether", Value: option.name, Reason: "can't be used with several limiters: use Policy.Overrides, or a limiter for each plan"})
		}
	}
	if err := errors.Join(append(errs, options.mistakes(), options.unitMistakes(rules, limiters...))...); err != nil {
		RefuseArguments(err)
	}
	return &Engine[C]{rules: rules, limiter: rules[0].Limiter, options: options, protocol: protocol, middleware: middleware{warnings: new(warnings)}}
}

// Logger returns where the middleware logs: to the logger of its limiter, of
// several the first's, else to that of the limiter's store, else to
// [slog.Default].
func (e *Engine[C]) Logger() *slog.Logger { return logger(e.limiter) }

// policyLogger is Logger, whose lines name the policy.
func (e *Engine[C]) policyLogger() *slog.Logger { return e.Logger().With("policy", e.Policy()) }

// Policy returns the name of the limiter's policy, of several the first's.
func (e *Engine[C]) Policy() string { return e.limiter.Name() }

// Begin decides a request and sets the header fields of the response. c is what
// the user's functions receive, and x is the same request as the engine reads
// it until Begin returns. A request is also Allowed, without a decision, if
// Skip selects it or if the policy is in shadow mode and there is no decision.
// It costs one decision. A request that the framework routes again, as gin's
// HandleContext does, passes without another one: each middleware decides a
// request once.
func (e *Engine[C]) Begin(c C, x Request) (a Admission) { return e.begin(c, x, false) }

// Await is Begin, but a denied request waits until it is allowed, or its
// context ends. Requests of one key wait in their order. A request that could
// never be allowed, or only after its context's deadline, is Denied. The user's
// functions are called once.
func (e *Engine[C]) Await(c C, x Request) Admission { return e.begin(c, x, true) }

func (e *Engine[C]) begin(c C, x Request, wait bool) (a Admission) {
	if e.options.Skip != nil && e.options.Skip(c) {
		return Admission{}
	}
	before := x.Decision()
	if before.madeBy(&e.middleware) {
		return Admission{}
	}
	a.ctx, a.limiter = x.Context(), e.limiter
	var fromUser bool
	var err error
	if len(e.rules) == 1 {
		fromUser, err = e.decide(c, x, &a, wait)
	} else {
		fromUser, err = decideTogether(e.rules, &e.options, c, &a, wait, &joint{by: &e.middleware}, func(missing error) {
			e.warn(slog.LevelWarn, c, x, causeOf(a.ctx, missing), missing, shadowMessage, "RL708")
		})
	}
	outer, advice := takeMarkers(x, before, e.policyLogger)
	a.Advice = advice
	if err != nil {
		e.fail(c, &a, err, fromUser)
		e.warnFailed(c, &a, x)
		if e.shadow() {
			return Admission{} // shadow mode refuses no request, even if its context has ended
		}
		return a
	}
	e.answer(&a, x, outer)
	if !a.Result.Allowed {
		a.Verdict = Denied
		e.warnNever(&a.Result, x)
	} else if !e.inHandler { // the handler releases what it has taken
		a.slots = keepSlots(a.holding())
	}
	return a
}

// decide sets the decision of a. fromUser: err is from a function of the user.
func (e *Engine[C]) decide(c C, x Request, a *Admission, wait bool) (fromUser bool, err error) {
	key, err := call(e.rules[0].Key, c)
	if err != nil {
		return true, err
	}
	take, err := e.options.charge(c)
	if err != nil {
		return true, err
	}
	limiter := e.limiter
	if e.options.Plan != nil {
		plan, err := e.options.Plan(c)
		if err != nil {
			return true, functionError{"plan", err}
		}
		if of, err := e.limiter.WithPlan(plan); err == nil {
			limiter = of
		} else {
			e.Report(slog.LevelWarn, noPlanMessage, "RL720", x.Path(), "plan", printable.Clip(plan, 128))
		}
	}
	if e.options.Limits != nil {
		limits, err := e.options.Limits(c)
		if err != nil {
			return true, functionError{"limits", err}
		}
		if limits != nil {
			if limiter, err = limiter.WithLimits(limits...); err != nil {
				return false, err
			}
		}
	}
	if wait {
		a.Result, err = e.askInTurn(a.ctx, limiter, key, take)
	} else {
		a.Result, err = e.ask(a.ctx, limiter, key, take)
	}
	if err != nil {
		return false, err
	}
	a.limiter, a.key = limiter, key
	return false, nil
}

// ask has the limiter decide what a request takes.
func (e *Engine[C]) ask(ctx context.Context, limiter *core.Limiter, key string, take charge) (core.Result, error) {
	now := limiter
	if e.options.Units != nil && (take.units == nil || take.all) { // what it takes depends on the policy, which may change meanwhile
		now = snapshot(limiter)
		if take.units == nil && !counts(now, "", core.Requests) {
			take.units = core.Units{} // there is nothing to take from a policy that counts no requests
		}
	}
	ctx = e.options.deciding(ctx)
	switch {
	case take.units != nil:
		return now.AllowUnits(ctx, key, take.unitsOf(now, key))
	case take.all:
		return allowAll(now, ctx, key)
	}
	return now.AllowN(ctx, key, take.cost)
}

// askInTurn is ask for a request that waits. It is a function of its own
// because what its closure refers to is allocated.
func (e *Engine[C]) askInTurn(ctx context.Context, limiter *core.Limiter, key string, take charge) (res core.Result, err error) {
	err = wait(ctx, limiter, key, take.nothing(), func() (denied []core.Result, err error) {
		if res, err = e.ask(ctx, limiter, key, take); err == nil && !res.Allowed {
			denied = []core.Result{res}
		}
		return denied, err
	})
	return res, err
}

// fail fills in a for a request that has no decision because of err.
func (e *Engine[C]) fail(c C, a *Admission, err error, fromUser bool) {
	a.Verdict, a.Err, a.Cause, a.Result = Failed, err, causeOf(a.ctx, err), core.Result{}
	if fromUser && e.protocol.ClientError != nil && e.protocol.ClientError(c, err) {
		a.Cause = ClientError
		if f := (functionError{}); errors.As(err, &f) {
			a.Err = f.error // as the function returned it
		}
	}
	if fromUser && a.Cause == Internal && a.ctx.Err() != nil && e.protocol.Ended != nil && e.protocol.Ended(err) {
		a.Cause = Ended
	}
}

// warnFailed logs what nothing else reports: a request without a usable key, an
// error of a function of the app, and in shadow mode a request that an enforced
// policy would refuse.
func (e *Engine[C]) warnFailed(c C, a *Admission, x Request) {
	shadow := e.shadow()
	switch {
	case (a.Cause == Internal || a.Cause == NoKey || a.Cause == ClientError) && shadow:
		e.warn(slog.LevelWarn, c, x, a.Cause, a.Err, shadowMessage, "RL708")
	case a.Cause == NoKey:
		e.warn(slog.LevelWarn, c, x, a.Cause, a.Err, noKeyMessage, "RL707")
	case a.Cause == Internal:
		e.warn(slog.LevelError, c, x, a.Cause, a.Err, failedMessage, "RL709")
	}
}

// warnNever logs a denial that no wait ends, because a cost is above a Capacity:
// either is wrong. A blocked key is as it should be.
func (e *Engine[C]) warnNever(r *core.Result, x Request) {
	if r.RetryAfter != core.Never {
		return
	}
	for _, l := range r.Limits() {
		if l.Cost > l.Limit.Capacity {
			e.Report(slog.LevelWarn, neverMessage, "RL721", x.Path(), "limit", l.Limit.Name, "cost", l.Cost, "capacity", l.Limit.Capacity)
			return
		}
	}
}

const (
	noPlanMessage = "ratelimit: a request has a plan that the policy lacks, so the policy's own limits decide"
	shadowMessage = "ratelimit: shadow mode allowed a request that an enforced policy refuses"
	noKeyMessage  = "ratelimit: a request was refused because it has no usable key"
	failedMessage = "ratelimit: a request was refused because there is no decision about it"
	neverMessage  = "ratelimit: a request asks for more than its limits can ever allow"
)

// shadow reports whether all policies are in shadow mode.
func (e *Engine[C]) shadow() bool {
	return !slices.ContainsFunc(e.rules, func(r rule[C]) bool { return !r.Limiter.Policy().Shadow })
}

func (e *Engine[C]) warn(level slog.Level, c C, x Request, cause Cause, err error, message, code string) {
	status := 0
	if e.protocol.Status != nil {
		status = e.protocol.Status(c, cause, err)
	}
	e.Report(level, message, code, x.Path(), "status", status, "error", err)
}

// answer stores the decision with the request, in front of outer, and sets the
// header fields of the response. It logs that one policy charged a request
// twice for the same key, as happens if the same middleware is installed for a
// group and for a route in it.
func (e *Engine[C]) answer(a *Admission, x Request, outer *Decision) {
	if a.joint != nil {
		a.joint.answer(x, outer)
		return
	}
	if e.inHandler {
		outer = outer.replaced(a.limiter, a.key)
	}
	warnTwice(e.warnings, x, outer, a.limiter, a.key)
	packed, writes := pack(a.Result)
	d := Decision{packed: packed, limiter: a.limiter, key: a.key, outer: outer, by: &e.middleware}
	var fields HeaderWriter
	if writes {
		fields = x.Response()
	}
	if fields != nil {
		d := &decided{Decision: d}
		a.decision = &d.Decision
		writeHeaders(a.Result, &d.room, fields)
	} else {
		d := d
		a.decision = &d
	}
	x.SetDecision(a.decision)
}

// wait calls ask until it returns no denials, or waiting does not help: then
// the request is denied, as ask said last. Requests wait in their order, behind
// all others of limiter and key. So a request does not ask at once if others
// wait, unless it takes nothing.
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

// What core lends to middleware.
var (
	counts         = hook.Counts.(func(l *core.Limiter, key, unit string) bool)
	snapshot       = hook.Snapshot.(func(*core.Limiter) *core.Limiter)
	require        = hook.Require.(func(l *core.Limiter, unit string))
	logger         = hook.Logger.(func(*core.Limiter) *slog.Logger)
	holdsEstimates = hook.HoldsEstimates.(func(core.Result) bool)
	keep           = hook.Keep.(func(core.Result) bool)
	releaseSoon    = hook.ReleaseSoon.(func(core.Result))
	allowAll       = hook.AllowAll.(func(l *core.Limiter, ctx context.Context, key string) (core.Result, error))
	inTurn         = hook.InTurn.(func(l *core.Limiter, ctx context.Context, key string, denied []core.Result, ask func() ([]core.Result, error)) error)
	waited         = hook.Waited.(func(l *core.Limiter, key string) bool)
	pack           = hook.Pack.(func(core.Result) (p hook.PackedResult, writes bool))
	unpack         = hook.Unpack.(func(p *hook.PackedResult, l *core.Limiter, key string) core.Result)
	writeHeaders   = hook.WriteHeaders.(func(core.Result, *field.Room, HeaderWriter))
	order          = hook.Order.(func(core.Result) []int)
	unsettled      = hook.Unsettled.(func(context.Context, core.Result, error))
)
