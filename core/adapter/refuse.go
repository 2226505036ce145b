package adapter

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
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
	switch cause {
	case middleware.ClientError:
		return cmp.Or(o.ownStatus(c, err), http.StatusRequestEntityTooLarge)
	case middleware.NoKey:
		return http.StatusBadRequest
	case middleware.Unavailable, middleware.Ended:
		return http.StatusServiceUnavailable
	}
	return ProblemOf(err).Status
}

// tooLarge reports whether err says no more than that a body is too large.
func tooLarge(err error) bool {
	return errors.As(err, new(*http.MaxBytesError)) && ProblemOf(err).Status == http.StatusInternalServerError
}

// ProblemOf describes a request that got no decision because of err, as
// [core.Problem] describes a denial. It includes nothing of err's text. The
// status is
//
//   - 400 if the request has no key ([core.ErrNoKey]), or one that can't be
//     used ([core.ErrBadKey]),
//   - 503 if the store can't answer and the policy fails closed
//     ([core.ErrUnavailable]), or if the request's own context has ended,
//   - 500 if a key, cost or limits function failed.
func ProblemOf(err error) core.ProblemDetails {
	switch {
	case errors.Is(err, core.ErrNoKey), errors.Is(err, core.ErrBadKey):
		return problem(http.StatusBadRequest)
	case errors.Is(err, core.ErrUnavailable): // draft-ietf-httpapi-ratelimit-headers-11, section 5.2
		return core.ProblemDetails{
			Type:   "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
			Title:  "Request cannot be satisfied due to temporary server capacity constraints",
			Status: http.StatusServiceUnavailable,
		}
	case errors.As(err, &hook.CallerDone{}):
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
	if p := ProblemOf(a.Err); p.Status == a.Status {
		return p
	}
	return problem(a.Status)
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
