package middleware

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Admission is what the engine says about a request.
type Admission struct {
	// Verdict is what the middleware does.
	Verdict Verdict
	// Err is why there is no decision (Failed). Don't show its text to clients,
	// unless Cause is ClientError.
	Err error
	// Cause is what kind of error Err is.
	Cause Cause
	// Advice is that of a [Marker], or "".
	Advice string

	decision *Decision       // nil: there is none
	release  func()          // releases the request's slots; nil: it has none
	ctx      context.Context // that of Begin: frameworks may have replaced it when End is called
}

// Verdict is what a middleware does with a request.
type Verdict uint8

const (
	// Allowed means that the request goes on to the handler. Call End
	// afterwards.
	Allowed Verdict = iota
	// Denied means that OnDenied answers the request, by default as the
	// protocol does if there are too many requests.
	Denied
	// Failed means that there is no decision. OnError answers the request, by
	// default by its Cause.
	Failed
)

// Result returns the decision: of several limiters that of all. It is zero if
// there is none: for a failed request and for one that passes without a limit.
func (a *Admission) Result() core.Result {
	if a.decision == nil {
		return core.Result{}
	}
	return a.decision.shared.Result()
}

// Problem describes a denial: the limits of all limiters that lack tokens.
func (a *Admission) Problem() core.ProblemDetails { return core.Problem(a.Result()) }

// Charged reports whether a limiter allowed the request and took its tokens.
func (a *Admission) Charged() bool { return a.Verdict == Allowed && a.decision != nil }

// Dropped returns a function that releases the request's slots, or nil if it
// has none. It is for frameworks that may drop a request without telling
// anybody, so that End is never called. The function does not refer to the
// request: a finalizer may call it. After End it does nothing.
func (a *Admission) Dropped() func() { return a.release }
