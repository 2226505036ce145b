package adapter

import (
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
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

// life returns the options that do not depend on HTTP.
func (o *Options[C]) life() middleware.Options[C] {
	return middleware.Options[C]{Cost: o.Cost, Limits: o.Limits, Units: o.Units, Settle: o.Settle, Skip: o.Skip, Refund: o.Refund}
}

// Verdict is what the engine says about a request. WantsStatus, Settles and Done take it.
type Verdict struct {
	middleware.Admission

	// Status is the status of the answer to a failed request.
	Status int
	// AsIs says that Err is a client error of the framework (see Options.ErrorStatus). The framework answers it.
	AsIs bool

	path string // of a request with Advice
}

// Outcome is what an adapter does with a request.
type Outcome = middleware.Outcome

const (
	// Allowed means that the request goes on to the handler. If WantsStatus reports true, call Done afterwards.
	Allowed = middleware.Allowed
	// Denied means that OnDenied answers the request, by default with 429.
	Denied = middleware.Denied
	// Failed means that there is no decision. OnError answers the request, by default as Refuse says.
	Failed = middleware.Failed
)
