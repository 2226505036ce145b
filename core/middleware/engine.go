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
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
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
// a nil limiter, a nil key, and a key or cost function that was made from bad
// arguments (see [ArgumentError]).
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
func (e *Engine[C]) Logger() *slog.Logger { return e.limiter.Logger() }

// policyLogger is Logger, whose lines name the policy.
func (e *Engine[C]) policyLogger() *slog.Logger { return e.Logger().With("policy", e.limiter.Name()) }

// Begin decides a request and sets the header fields of the response. c is what
// the user's functions receive, and x is the same request as the engine reads
// it until Begin returns. A request is also Allowed, without a decision, if
// Skip selects it or if the policy is in shadow mode and there is no decision.
// It costs one decision. A request that the framework routes again, as gin's
// HandleContext does, passes without another one: each middleware decides a
// request once.
func (e *Engine[C]) Begin(c C, x Request) (a Admission) { return e.begin(c, x, false) }

// Await is Begin, but a denied request waits until it is allowed, or its
// context ends. It asks again when the tokens that it lacks should be there, and
// for slots at least 20 times a second. Others who ask in between may take them:
// there is no order. A request that could never be allowed, or only after its
// context's deadline, is Denied. The user's functions are called once.
func (e *Engine[C]) Await(c C, x Request) Admission { return e.begin(c, x, true) }

func (e *Engine[C]) begin(c C, x Request, wait bool) (a Admission) {
	if e.options.Skip != nil && e.options.Skip(c) {
		return Admission{}
	}
	before := x.Decision()
	if before.madeBy(&e.middleware) {
		return Admission{}
	}
	a.ctx = x.Context()
	var q question
	var res core.Result
	err := e.prepare(c, x, &q)
	fromUser := err != nil
	switch {
	case fromUser:
	case wait:
		res, err = e.await(a.ctx, &q)
	default:
		res, err = e.ask(a.ctx, &q)
	}
	a.Advice = takeMarkers(x, before, e.policyLogger)
	if err != nil {
		e.fail(c, &a, err, fromUser)
		e.warnFailed(c, &a, x)
		if e.shadow() {
			return Admission{} // shadow mode refuses no request, even if its context has ended
		}
		return a
	}
	a.decision = e.answer(&res, x)
	if !res.Allowed {
		a.Verdict = Denied
		e.warnNever(&res, x, q.take.floor)
		return a
	}
	if !e.inHandler { // the handler releases what it has taken
		if release, kept := res.Keep(); kept {
			a.release = release
		}
	}
	return a
}

// question is what the engine asks about one request.
type question struct {
	limiter *core.Limiter
	key     string
	take    charge
	charges []core.Charge // of several limiters; nil: there is one
}

// prepare sets q to what a request asks. Errors are of the user's functions.
func (e *Engine[C]) prepare(c C, x Request, q *question) (err error) {
	if len(e.rules) > 1 {
		return e.prepareTogether(c, x, q)
	}
	q.limiter = e.limiter
	if q.key, err = call(e.rules[0].Key, c); err != nil {
		return err
	}
	if q.take, err = e.options.charge(c); err != nil {
		return err
	}
	if e.options.Limits != nil {
		limits, err := e.options.Limits(c)
		if err != nil {
			return functionError{"limits", err}
		}
		if limits != nil {
			if q.limiter, err = e.limiter.WithLimits(limits...); err != nil {
				return err
			}
			return nil
		}
	}
	if e.options.Plan == nil {
		return nil
	}
	plan, err := e.options.Plan(c)
	if err != nil {
		return functionError{"plan", err}
	}
	if of, err := e.limiter.WithPlan(plan); err == nil {
		q.limiter = of
	} else {
		e.Report(slog.LevelWarn, noPlanMessage, "RL720", x.Path(), "plan", printable.Clip(plan, 128))
	}
	return nil
}

// ask has the limiters decide.
func (e *Engine[C]) ask(ctx context.Context, q *question) (core.Result, error) {
	ctx = e.options.deciding(ctx)
	switch {
	case q.charges != nil:
		return core.AllowTogether(ctx, q.charges...)
	case q.take.all:
		return q.askAll(ctx)
	case q.take.floor != nil:
		return q.askFor(ctx, q.take.cost)
	case q.take.units != nil:
		return q.limiter.AllowUnits(ctx, q.key, q.take.units)
	}
	return q.limiter.AllowN(ctx, q.key, q.take.cost)
}

// askAll asks for as many requests as one can take, but for the floor. The
// limits that decide may be smaller than the limiter's, because the store is
// away and the fallback decides, or because of a new policy: then it asks once
// more.
func (q *question) askAll(ctx context.Context) (core.Result, error) {
	most := q.take.whole(q.limiter.Limits(q.key))
	res, err := q.askFor(ctx, most)
	if err != nil || res.RetryAfter != core.Never {
		return res, err
	}
	var decided []core.Limit
	for _, l := range res.Limits() {
		decided = append(decided, l.Limit)
	}
	if less := q.take.whole(decided); less > 0 && less < most {
		return q.askFor(ctx, less)
	}
	return res, nil
}

// askFor asks for n requests, and the units that the request takes.
func (q *question) askFor(ctx context.Context, n int64) (core.Result, error) {
	switch {
	case q.take.floor != nil:
		res, err := core.AllowTogether(ctx, core.Charge{Limiter: q.limiter, Key: q.key, Units: q.take.unitsFor(n), Floor: q.take.floor})
		if err != nil {
			return res, err
		}
		return res.Parts[0], nil
	case q.take.units == nil:
		return q.limiter.AllowN(ctx, q.key, n)
	}
	return q.limiter.AllowUnits(ctx, q.key, q.take.unitsFor(n))
}

// await asks until the request is allowed, or waiting does not help.
func (e *Engine[C]) await(ctx context.Context, q *question) (core.Result, error) {
	for {
		res, err := e.ask(ctx, q)
		if err != nil || res.Allowed || res.RetryAfter == core.Never {
			return res, err
		}
		pause := pauseAfter(&res)
		if endsBefore(ctx, pause) {
			return res, nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return core.Result{}, ctx.Err()
		}
	}
}

// pollEvery is the longest pause before a request that waits for a slot asks
// again: nobody knows when others release theirs. Pauses are half of it at
// least, at random, so that requests that wait don't ask all at once.
const pollEvery = 50 * time.Millisecond

// pauseAfter returns how long to wait after a denial before the next question.
func pauseAfter(denied *core.Result) (pause time.Duration) {
	for _, l := range denied.Limits() {
		if l.Limit.Mode != core.Concurrent { // a limit with a rate has its tokens no earlier
			pause = max(pause, l.RetryAfter)
		}
	}
	if pause == 0 {
		pause = min(denied.RetryAfter, pollEvery/2+rand.N(pollEvery/2))
	}
	return pause
}

// fail fills in a for a request that has no decision because of err.
func (e *Engine[C]) fail(c C, a *Admission, err error, fromUser bool) {
	a.Verdict, a.Err, a.Cause = Failed, err, CauseOf(a.ctx, err)
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

// warnNever logs a denial that no wait ends, because a cost and what must be
// left are above a Capacity: one of them is wrong. A blocked key is as it should
// be.
func (e *Engine[C]) warnNever(r *core.Result, x Request, floor core.Units) {
	if r.RetryAfter != core.Never {
		return
	}
	for _, l := range r.Limits() {
		if leave := floor[unitOf(l.Limit)]; l.Cost > 0 && l.Cost > l.Limit.Capacity-leave {
			args := []any{"limit", l.Limit.Name, "cost", l.Cost, "capacity", l.Limit.Capacity}
			if leave > 0 {
				args = append(args, "floor", leave)
			}
			e.Report(slog.LevelWarn, neverMessage, "RL721", x.Path(), args...)
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
	twiceMessage  = "ratelimit: a request was charged twice by one policy for the same key; check whether its middleware is installed twice"
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

// answer stores the decision with the request, and sets the header fields of the
// response. It logs that one policy charged a request twice for the same key, as
// happens if the same middleware is installed for a group and for a route in
// it.
func (e *Engine[C]) answer(res *core.Result, x Request) *Decision {
	outer := x.Decision()
	if policy := chargedTwice(outer, res); policy != "" {
		e.warnings.log(e.Logger(), slog.LevelWarn, twiceMessage, "RL704", policy, x.Path())
	}
	d := &Decision{outer: outer, by: &e.middleware}
	d.shared.Share(res)
	if fields := x.Response(); fields != nil {
		d.shared.WriteHeaders(fields)
	}
	x.SetDecision(d)
	return d
}
