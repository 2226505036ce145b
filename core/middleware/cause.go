package middleware

import (
	"context"
	"errors"

	"github.com/tokenbucket-go/ratelimit/core"
)

// fail fills in a for a request that has no decision because of err. fromUser says that err is from a function of the user.
func (e *Engine[C]) fail(c C, a *Admission, err error, fromUser bool) {
	a.Outcome, a.Err, a.Cause, a.Result = Failed, err, causeOf(a.ctx, err), core.Result{}
	if fromUser && e.protocol.ClientError != nil && e.protocol.ClientError(c, err) {
		a.Cause = ClientError
		if f := (functionError{}); errors.As(err, &f) {
			a.Err = f.error // as the function returned it
		}
	}
}

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
