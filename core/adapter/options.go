package adapter

import (
	"github.com/tokenbucket-go/ratelimit/core"
)

// Options are what a user sets for one middleware, in the framework's own terms: C is what its
// handlers receive. The zero value of each means its default.
type Options[C any] struct {
	Cost   func(C) (int64, error)        // tokens a request takes; 1
	Limits func(C) ([]core.Limit, error) // in place of the policy's own; nil keeps those
	Skip   func(C) bool                  // whether to let a request through unlimited
	Refund func(C, int) bool             // whether to give a request's tokens back, by its status

	// ErrorStatus is the adapter's: the status that an error of a key, cost or limits function has in the
	// framework's own terms, 0 for an error of any other kind. Nil knows of none.
	ErrorStatus func(C, error) int
}
