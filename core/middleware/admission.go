package middleware

import (
	"context"
	"errors"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
)

// Options are what a user sets for one middleware. C is what handlers receive.
// The zero value of each field means its default.
type Options[C any] struct {
	Cost   func(C) (int64, error)        // how many requests a request counts as; by default 1
	Limits func(C) ([]core.Limit, error) // limits of a request; nil, by default, means those of the policy
	Plan   func(C) (string, error)       // the policy's plan of a request; "", by default, means the policy's own limits
	Units  func(C) (core.Units, error)   // what else a request takes; nil, by default, means nothing
	Settle func(C, int) core.Units       // what an answered request really took, given its status; nil means what was charged
	Skip   func(C) bool                  // whether a request passes without a limit; by default none does
	Refund func(C, int) bool             // whether a request gets its tokens back, given its status; by default none does
}

// Protocol is what a protocol knows of errors. Nil functions mean that it knows
// nothing.
type Protocol[C any] struct {
	// ClientError reports whether an error of a user's function is one of the
	// client, in the protocol's or the framework's terms.
	ClientError func(c C, err error) bool
	// Ended reports whether an error of a user's function says, in the
	// protocol's terms, that a context has ended. It is asked if the request's
	// has.
	Ended func(err error) bool
	// Status returns the status that a failed request is answered with, for the
	// log.
	Status func(c C, cause Cause, err error) int
}

// Admission is what the engine says about a request.
type Admission struct {
	// Verdict is what the middleware does.
	Verdict Verdict
	// Result is the decision: of several limiters the tightest. It is zero if
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
	slots    *slots          // that the request holds; nil: none
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
	if a.joint != nil {
		return a.joint.result.Problem()
	}
	return core.Problem(a.Result)
}

// WriteHeaders writes the header fields of the decision to h, if the request
// had nowhere to put them when Begin was called.
func (a *Admission) WriteHeaders(h HeaderWriter) {
	if a.joint != nil {
		writeJointHeaders(a.joint.result, h)
	} else {
		writeHeaders(a.Result, new(field.Room), h)
	}
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
		return a.joint.result.Results
	}
	if _, whole := a.decision.packed.From.(*core.Result); !whole { // the others hold nothing
		return nil
	}
	return []core.Result{a.decision.result()}
}

// Cause is why there is no decision about a request.
type Cause uint8

const (
	// Internal means that a function of the user or the policy failed.
	Internal Cause = iota
	// ClientError means that a function of the user returned an error that
	// Protocol.ClientError knows.
	ClientError
	// NoKey means that the request has no key, or one that can't be used:
	// [core.ErrNoKey], [core.ErrBadKey].
	NoKey
	// Unavailable means that the store can't answer and the policy fails
	// closed: [core.ErrUnavailable].
	Unavailable
	// Ended means that the request's own context has ended.
	Ended
)

// causeOf returns the cause of err, about a request with the context ctx.
func causeOf(ctx context.Context, err error) Cause {
	ended := ctx.Err()
	switch {
	case errors.Is(err, core.ErrNoKey), errors.Is(err, core.ErrBadKey):
		return NoKey
	case errors.Is(err, core.ErrUnavailable):
		return Unavailable
	case ended != nil && errors.Is(err, ended): // the client left, for instance, while its user was looked up
		return Ended
	}
	return Internal
}

// functionError is an error of the user's cost or limits function.
type functionError struct {
	name string
	error
}

func (f functionError) Error() string { return f.name + ": " + f.error.Error() }
func (f functionError) Unwrap() error { return f.error }
