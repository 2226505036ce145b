package middleware

import (
	"context"
	"errors"

	"github.com/tokenbucket-go/ratelimit/core"
)

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

// CauseOf returns the cause of err, because of which there is no decision about
// a request with the context ctx. It is never ClientError, which only the
// protocol knows.
func CauseOf(ctx context.Context, err error) Cause {
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
