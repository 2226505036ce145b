package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Engine decides the requests of one middleware. It is safe for concurrent use.
type Engine[C any] struct {
	limiter *core.Limiter
	key     func(C) (string, error)
	options Options[C]

	warnTwice, warnNoKey, warnBroken sync.Once
	warnedRoute                      atomic.Bool
}

// New returns an engine. Mistakes in its arguments are mistakes in the program, so it panics with all of them, as
// [net/http.ServeMux.Handle] does: an error that joins a [core.ConfigError] for each. Such are a nil limiter or key, and
// a key or cost function that was made of bad arguments: see Mistake.
func New[C any](limiter *core.Limiter, key func(C) (string, error), options Options[C]) *Engine[C] {
	if err := mistakes(limiter, key, options); err != nil {
		panic(fmt.Errorf("ratelimit: %w", err))
	}
	return &Engine[C]{limiter: limiter, key: key, options: options}
}

// Verdict says what is to happen to a request.
type Verdict struct {
	// Outcome is what to do.
	Outcome Outcome
	// Result is the decision; its zero value when there is none (Skipped and Failed).
	Result core.Result
	// Err is why there is no decision (Failed). Its text is not for clients, unless AsIs.
	Err error
	// Status is what a Failed request is answered with.
	Status int
	// AsIs says that Err is a client error in the framework's own terms (see Options.ErrorStatus), to be answered
	// as the framework does.
	AsIs bool

	ctx      context.Context // the request's as it came: frameworks may have another by the time of Done
	limiter  *core.Limiter
	key      string
	unrouted string // the advice of a ByRoute that found no route
}

// Outcome is what an adapter does with a request.
type Outcome uint8

const (
	// Skipped requests go on as if there were no limiter.
	Skipped Outcome = iota
	// Allowed requests go on. Then call Done.
	Allowed
	// Denied requests end with OnDenied, or 429.
	Denied
	// Failed requests end with OnError, or as Refuse says.
	Failed
)

// unavailableRetry is the Retry-After, in seconds, while the store can't answer: it is back any time.
const unavailableRetry = "1"

// Begin decides a request and writes the header fields of the response. c is what the user's
// functions receive, x the same request as the engine reads it.
func (e *Engine[C]) Begin(c C, x Exchange) (v Verdict) {
	if e.options.Skip != nil && e.options.Skip(c) {
		return v // Skipped
	}
	v.ctx = x.Context()
	before := x.Kept()
	err, own := e.decide(v.ctx, c, &v)
	v.unrouted = unrouted(x, before)
	if err != nil {
		e.fail(c, &v, err, own)
		e.warnRefused(x, &v)
		if e.limiter.Policy().Shadow {
			return Verdict{} // Skipped: a policy in shadow mode stops nobody, not even who can't wait any more
		}
		if errors.Is(err, core.ErrUnavailable) {
			x.Response().Set("Retry-After", unavailableRetry)
			x.Response().Set("Cache-Control", "no-store")
		}
		return v
	}
	e.keep(x, &v)
	v.Result.WriteHeaders(x.Response())
	v.Outcome = Denied
	if v.Result.Allowed {
		v.Outcome = Allowed
	}
	return v
}

// warnRefused says once, of each kind, what requests are refused for: those without a usable key, whom nothing
// else tells of, and in shadow mode those that will be refused without it.
func (e *Engine[C]) warnRefused(x Exchange, v *Verdict) {
	shadow := e.limiter.Policy().Shadow
	switch {
	case v.Status == http.StatusInternalServerError && shadow:
		e.warnBroken.Do(func() { e.warn(x, v, foretold) })
	case v.Status == http.StatusBadRequest && !v.AsIs, v.Status < http.StatusInternalServerError && shadow:
		message := "ratelimit: a request was refused because it has no usable key; this is told once"
		if shadow {
			message = foretold
		}
		e.warnNoKey.Do(func() { e.warn(x, v, message) })
	}
}

const foretold = "ratelimit: shadow mode lets a request pass that will be refused when the policy is enforced"

func (e *Engine[C]) warn(x Exchange, v *Verdict, message string) {
	slog.Warn(message, "policy", e.limiter.Name(), "status", v.Status, "path", x.Path(), "error", v.Err)
}

// decide fills in v, but for its Outcome. own says that err is from a function of the user's.
func (e *Engine[C]) decide(ctx context.Context, c C, v *Verdict) (err error, own bool) {
	v.limiter = e.limiter
	if v.key, err = call(e.key, c); err != nil {
		return err, true
	}
	cost := int64(1)
	if e.options.Cost != nil {
		if cost, err = e.options.Cost(c); err != nil && !errors.Is(err, core.ErrUnknownCost) {
			return functionError{"cost", err}, true
		}
	}
	unknown := err != nil
	if e.options.Limits != nil {
		limits, err := e.options.Limits(c)
		if err != nil {
			return functionError{"limits", err}, true
		}
		if limits != nil {
			if v.limiter, err = e.limiter.WithLimits(limits...); err != nil {
				return err, false
			}
		}
	}
	if unknown {
		v.Result, err = v.limiter.AllowAll(ctx, v.key)
	} else {
		v.Result, err = v.limiter.AllowN(ctx, v.key, cost)
	}
	return err, false
}

// keep leaves the decision with the request, and says once that a request pays twice: as when the same
// middleware stands in a group and in a route.
func (e *Engine[C]) keep(x Exchange, v *Verdict) {
	d := &Decision{Result: v.Result, limiter: v.limiter, key: v.key, outer: x.Kept()}
	for o := d.outer; o != nil; o = o.outer {
		if o.limiter != nil && o.limiter.Name() == d.limiter.Name() && o.key == d.key { // without one it is a note
			e.warnTwice.Do(func() {
				slog.Warn("ratelimit: one request is charged twice by the same policy for the same key: is its middleware installed twice?",
					"policy", d.limiter.Name(), "path", x.Path())
			})
		}
	}
	x.Keep(d)
}

// WantsStatus reports whether Done needs the status of the response.
func (e *Engine[C]) WantsStatus(v Verdict) bool {
	return e.options.Refund != nil || v.unrouted != "" && !e.warnedRoute.Load()
}

// Done ends an Allowed request that was answered with status: it gives the tokens back if the user's
// Refund says so, even when the client has gone, and reports whether it did.
func (e *Engine[C]) Done(c C, x Exchange, v Verdict, status int) (refunded bool) {
	if informational(status) {
		status = http.StatusOK // net/http's own follows
	}
	e.warnUnrouted(x, v, status)
	if e.options.Refund == nil || !e.options.Refund(c, status) {
		return false
	}
	// What can't be given back refills; the response is on its way and can't tell.
	_ = v.limiter.Undo(context.WithoutCancel(v.ctx), v.key, v.Result)
	return true
}

// Asker is Done for frameworks that tell the status when the response is written, and may tell another
// before: what it returns takes each status once, until tokens are given back or one was sent, after which
// the client gets no other. It is for the goroutine of the request alone.
func (e *Engine[C]) Asker(c C, x Exchange, v Verdict) func(status int, sent bool) {
	over, last := false, 0
	return func(status int, sent bool) {
		if over || informational(status) {
			return
		}
		if status == last {
			over = sent
			return
		}
		over, last = true, status // should Done panic: it may be told the recovery's answer next
		over = e.Done(c, x, v, status) || sent
	}
}

// informational reports whether status, such as 103, is no answer yet (RFC 9110, section 15.2).
func informational(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}
