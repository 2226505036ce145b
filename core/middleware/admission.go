package middleware

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
)

// Admission is what the engine says about a request.
type Admission struct {
	// Verdict is what the middleware does.
	Verdict Verdict
	// Result is the decision: of several limiters that of all. It is zero if
	// there is none: for a failed request and for one that passes without a
	// limit.
	Result core.Result
	// Err is why there is no decision (Failed). Don't show its text to clients,
	// unless Cause is ClientError.
	Err error
	// Cause is what kind of error Err is.
	Cause Cause
	// Advice is that of a [Marker], or "".
	Advice string

	limiter  *core.Limiter // that decides; of several the first
	key      string
	decision *Decision       // of the limiter; nil without one, or with several
	joint    *joint          // the decisions of several limiters
	slots    slots           // that the request holds; nil: none
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

// Problem describes a denial: the limits of all limiters that lack tokens.
func (a *Admission) Problem() core.ProblemDetails {
	return core.Problem(a.Result)
}

// WriteHeaders writes the header fields of the decision to h, if the request
// had nowhere to put them when Begin was called.
func (a *Admission) WriteHeaders(h HeaderWriter) {
	writeHeaders(a.Result, new(field.Room), h)
}

// Charged reports whether a limiter allowed the request and took its tokens.
func (a *Admission) Charged() bool {
	return a.Verdict == Allowed && (a.decision != nil || a.joint != nil)
}

// Context is the request's context when Begin was called.
func (a *Admission) Context() context.Context { return a.ctx }

// Dropped returns a function that releases the request's slots, or nil if it
// has none. It is for frameworks that may drop a request without telling
// anybody, so that End is never called. The function does not refer to the
// request: a finalizer may call it. After End it does nothing.
func (a *Admission) Dropped() func() {
	if a.slots == nil {
		return nil
	}
	return a.slots.release
}

// Limiter is the one that decides; of several the first.
func (a *Admission) Limiter() *core.Limiter { return a.limiter }

// holding returns the decisions that may hold slots or estimates; nil if there
// are none. A decision packed as a plan holds nothing: see [hook.PackedResult].
func (a *Admission) holding() []core.Result {
	if a.joint != nil {
		return a.joint.result.Parts
	}
	if _, whole := a.decision.packed.From.(*core.Result); !whole { // the others hold nothing
		return nil
	}
	return []core.Result{a.decision.result()}
}
