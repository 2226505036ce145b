package adapter

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Options are what a user sets for one middleware. C is what the framework's handlers receive. The zero value of
// each field means its default.
type Options[C any] struct {
	Cost   func(C) (int64, error)        // how many requests a request counts as; by default 1
	Limits func(C) ([]core.Limit, error) // limits of a request; nil, by default, means those of the policy
	Units  func(C) (core.Units, error)   // what else a request takes; nil, by default, means nothing
	Settle func(C, int) core.Units       // what an answered request really took, given its status; nil means what was charged
	Skip   func(C) bool                  // whether a request passes without a limit; by default none does
	Refund func(C, int) bool             // whether a request gets its tokens back, given its status; by default none does

	// ErrorStatus is set by the adapter. It returns the status that an error of a key, cost or limits function has
	// in the framework's own terms, and 0 for any other error. Nil means that the framework has no such errors.
	ErrorStatus func(C, error) int
}

// Verdict is what the engine says about a request.
type Verdict struct {
	// Outcome is what the adapter does.
	Outcome Outcome
	// Result is the decision: of several limiters the tightest. It is zero if there is none: for a failed request and for
	// one that passes without a limit.
	Result core.Result
	// Err is why there is no decision (Failed). Don't show its text to clients, unless AsIs is set.
	Err error
	// Status is the status of the answer to a failed request.
	Status int
	// AsIs says that Err is a client error of the framework (see Options.ErrorStatus). The framework answers it.
	AsIs bool

	limiter  *core.Limiter // that decides; of several the first
	key      string
	decision *Decision       // of the limiter; nil without one, or with several
	joint    *joint          // the decisions of several limiters
	ctx      context.Context // that of Begin: frameworks may have replaced it when Done is called
	advice   string          // of a ByRoute that found no route
	path     string          // of a request with advice
}

// Outcome is what an adapter does with a request.
type Outcome uint8

const (
	// Allowed means that the request goes on to the handler. If WantsStatus reports true, call Done afterwards.
	Allowed Outcome = iota
	// Denied means that OnDenied answers the request, by default with 429.
	Denied
	// Failed means that there is no decision. OnError answers the request, by default as Refuse says.
	Failed
)

// Problem describes a denial: the limits of all limiters that lack tokens.
func (v *Verdict) Problem() core.ProblemDetails {
	if v.joint != nil {
		return v.joint.result.Problem()
	}
	return core.Problem(v.Result)
}

// charged reports whether a limiter allowed the request and took its tokens.
func (v *Verdict) charged() bool {
	return v.Outcome == Allowed && (v.decision != nil || v.joint != nil)
}
