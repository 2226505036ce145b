package middleware

import (
	"context"
	"errors"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Cause is why there is no decision about a request.
type Cause uint8

const (
	// Internal means that a function of the user or the policy failed.
	Internal Cause = iota
	// ClientError means that a function of the user returned an error that Protocol.ClientError knows.
	ClientError
	// NoKey means that the request has no key, or one that can't be used: [core.ErrNoKey], [core.ErrBadKey].
	NoKey
	// Unavailable means that the store can't answer and the policy fails closed: [core.ErrUnavailable].
	Unavailable
	// Ended means that the request's own context has ended.
	Ended
)

// causeOf returns the cause of an error, whoever returned it, about a request with the context ctx.
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
