package adapter

import "github.com/tokenbucket-go/ratelimit/core/middleware"

// Options are what a user sets for one middleware. C is what the framework's handlers receive.
type Options[C any] struct {
	middleware.Options[C]

	// ErrorStatus is set by the adapter. It returns the status that an error of a key, cost or limits function has
	// in the framework's own terms, and 0 for any other error. Nil means that the framework has no such errors.
	ErrorStatus func(C, error) int
}

// Verdict is what the engine says about a request. WantsDone, WantsStatus, WantsOver and Done take it.
type Verdict struct {
	middleware.Admission

	// Status is the status of the answer to a failed request.
	Status int
	// AsIs says that Err is a client error of the framework (see Options.ErrorStatus). The framework answers it.
	AsIs bool

	path string // of a request with Advice
}
