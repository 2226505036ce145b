package adapter

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Engine decides the HTTP requests of one middleware. It is safe for concurrent
// use.
type Engine[C any] struct {
	engine  *middleware.Engine[C]
	options Options[C]
}

// New returns an engine. It panics if an argument is wrong, as
// [net/http.ServeMux.Handle] does, because that is a mistake in the program.
// The panic value is an error that joins a [core.ConfigError] for each mistake:
// a nil limiter, a nil key, and a key, cost or units function that was made
// from bad arguments (see [middleware.ArgumentError]).
func New[C any](limiter *core.Limiter, key func(C) (string, error), options Options[C]) *Engine[C] {
	return &Engine[C]{engine: middleware.New(limiter, key, options.Options, options.protocol()), options: options}
}

// InHandler returns an engine for one decision on key, within the handler of
// the request. It panics if limiter is nil. See [middleware.InHandler].
func InHandler[C any](limiter *core.Limiter, key string) *Engine[C] {
	var options Options[C]
	return &Engine[C]{engine: middleware.InHandler(limiter, key, options.protocol()), options: options}
}

// NewTogether returns an engine of several limiters that decide together: a
// request is allowed if all of them have the tokens, and takes nothing if not.
// See [core.AllowTogether]. It panics as [New] does, also without a rule, and
// with Plan.
func NewTogether[C any, K ~func(C) (string, error)](rules []middleware.Rule[K], options Options[C]) *Engine[C] {
	return &Engine[C]{engine: middleware.NewTogether(rules, options.Options, options.protocol()), options: options}
}

// Logger returns where the middleware logs: to the logger of its limiter, of
// several the first's, else to that of the limiter's store, else to
// [slog.Default].
func (e *Engine[C]) Logger() *slog.Logger { return e.engine.Logger() }

// Begin decides a request and sets the header fields of the response. c is what
// the user's functions receive, and x is the same request as the engine reads
// it until Begin returns. A request is also Allowed, without a decision, if
// Skip selects it or if the policy is in shadow mode and there is no decision.
// It costs one decision. A request that the framework routes again, as gin's
// HandleContext does, passes without another one: each middleware decides a
// request once.
func (e *Engine[C]) Begin(c C, x Request) (a Admission) {
	a.Admission = e.engine.Begin(c, x)
	if a.Advice != "" {
		a.path = x.Path()
	}
	if a.Verdict == middleware.Failed {
		a.Status = e.options.status(c, a.Cause, a.Err)
		a.AsIs = a.Cause == middleware.ClientError && e.options.ownStatus(c, a.Err) != 0
		if errors.Is(a.Err, core.ErrUnavailable) {
			x.Response().Set("Retry-After", unavailableRetryAfter)
			x.Response().Set("Cache-Control", "no-store")
		}
	}
	return a
}

// unavailableRetryAfter is in seconds: the store may soon return.
const unavailableRetryAfter = "1"

// WantsDone reports whether Done must be called.
func (e *Engine[C]) WantsDone(a Admission) bool {
	return e.WantsStatus(a) || e.engine.WantsEnd(&a.Admission)
}

// WantsStatus reports whether Done needs the status of the response.
func (e *Engine[C]) WantsStatus(a Admission) bool {
	return e.engine.WantsStatus(&a.Admission) || a.Charged() && a.Advice != ""
}

// WantsOver reports whether Done must be called when the response of a is over,
// and not as soon as its status is known.
func (e *Engine[C]) WantsOver(a Admission) bool { return e.engine.WantsOver(&a.Admission) }

// Done ends an Allowed request that was answered with status. If the user's
// Refund returns true, it returns the tokens to the buckets, even if the client
// has gone. It reports whether it did. If there is a Settle, it settles what
// the request took. It releases the request's slots. It does nothing for a
// request that was not charged.
func (e *Engine[C]) Done(c C, a Admission, status int) (refunded bool) {
	if !a.Charged() {
		return false
	}
	if informational(status) {
		status = http.StatusOK // net/http sends 200 after an informational status
	}
	e.warnUnrouted(&a, status)
	return e.engine.End(c, &a.Admission, status)
}

// warnUnrouted logs that a request without a known route was served.
func (e *Engine[C]) warnUnrouted(a *Admission, status int) {
	if a.Advice != "" && status < http.StatusBadRequest {
		e.engine.Report(slog.LevelWarn, "ratelimit: ByRoute found no route here, so all such requests share one bucket: "+a.Advice, "RL705", a.path)
	}
}

// StatusHook is Done for frameworks that report a status when the response is
// written and may replace it before it is sent. The hook that it returns calls
// Done once for each new status. It stops after a refund and after a status
// that was sent, because the client gets no other. If that was an informational
// one, such as 103, net/http sends 200 after it. The hook is not safe for
// concurrent use.
func (e *Engine[C]) StatusHook(c C, a Admission) func(status int, sent bool) {
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
		ended = e.Done(c, a, status) || sent
	}
}

// informational reports whether another status follows, as after 103.
func informational(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}

// Options are what a user sets for one middleware. C is what the framework's
// handlers receive.
type Options[C any] struct {
	middleware.Options[C]

	// ErrorStatus is set by the adapter. It returns the status that an error of
	// a key, cost or units function has in the framework's own terms, and 0
	// for any other error. Nil means that the framework has no such errors.
	ErrorStatus func(C, error) int
}

// Admission is what the engine says about a request. WantsDone, WantsStatus,
// WantsOver and Done take it.
type Admission struct {
	middleware.Admission

	// Status is the status of the answer to a failed request.
	Status int
	// AsIs says that Err is a client error of the framework (see
	// Options.ErrorStatus). The framework answers it.
	AsIs bool

	path string // of a request with Advice
}
