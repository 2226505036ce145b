package adapter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// protocol returns what HTTP and the framework know of errors.
func (o *Options[C]) protocol() middleware.Protocol[C] {
	return middleware.Protocol[C]{
		ClientError: func(c C, err error) bool { return o.ownStatus(c, err) != 0 || tooLarge(err) },
		Status:      o.status,
	}
}

// ownStatus returns the status of a client error of the framework, else 0.
func (o *Options[C]) ownStatus(c C, err error) int {
	if o.ErrorStatus == nil {
		return 0
	}
	if status := o.ErrorStatus(c, err); status >= 400 && status < 500 {
		return status
	}
	return 0
}

// status returns the status for a request that has no decision because of err.
func (o *Options[C]) status(c C, cause middleware.Cause, err error) int {
	if cause == middleware.ClientError {
		return cmp.Or(o.ownStatus(c, err), http.StatusRequestEntityTooLarge)
	}
	return problemOf(cause).Status
}

// tooLarge reports whether err says no more than that a body is too large.
func tooLarge(err error) bool {
	return errors.As(err, new(*http.MaxBytesError)) &&
		!errors.Is(err, core.ErrNoKey) && !errors.Is(err, core.ErrBadKey) && !errors.Is(err, core.ErrUnavailable)
}

// ProblemOf describes a request with the context ctx that got no decision
// because of err, as [core.Problem] describes a denial. It includes nothing of
// err's text. The status is
//
//   - 400 if the request has no key ([core.ErrNoKey]), or one that can't be
//     used ([core.ErrBadKey]),
//   - 503 if the store can't answer and the policy fails closed
//     ([core.ErrUnavailable]), or if err is that of ctx, which has ended,
//   - 500 if a key, cost or units function failed.
func ProblemOf(ctx context.Context, err error) core.ProblemDetails {
	return problemOf(middleware.CauseOf(ctx, err))
}

func problemOf(cause middleware.Cause) core.ProblemDetails {
	switch cause {
	case middleware.NoKey:
		return problem(http.StatusBadRequest)
	case middleware.Unavailable: // draft-ietf-httpapi-ratelimit-headers-11, section 5.2
		return core.ProblemDetails{
			Type:   "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
			Title:  "Request cannot be satisfied due to temporary server capacity constraints",
			Status: http.StatusServiceUnavailable,
		}
	case middleware.Ended:
		return problem(http.StatusServiceUnavailable)
	}
	return problem(http.StatusInternalServerError)
}

// problem describes a status that needs no explanation.
func problem(status int) core.ProblemDetails {
	return core.ProblemDetails{Type: "about:blank", Title: http.StatusText(status), Status: status}
}

// Refuse describes the response to a Failed request. It shows nothing of a.Err.
func Refuse(a Admission) core.ProblemDetails {
	if a.Cause == middleware.ClientError {
		return problem(a.Status)
	}
	return problemOf(a.Cause)
}

// WriteProblem answers with p as application/problem+json (RFC 9457).
func WriteProblem(w http.ResponseWriter, p core.ProblemDetails) {
	body, err := json.Marshal(p)
	if err != nil { // can't happen: p holds strings and an integer
		body = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // it fails only if the client has gone
}
