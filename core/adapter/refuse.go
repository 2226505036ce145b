package adapter

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
)

// fail fills in v for a request that has no decision because of err. fromUser says that err is from a function of
// the user. Such an error keeps its own status if it is a client error: one of the framework, or a body above
// [http.MaxBytesReader]'s limit. It is 503 if the request's context has ended.
func fail[C any](options Options[C], c C, v *Verdict, err error, fromUser bool) {
	v.Outcome, v.Err, v.Result = Failed, err, core.Result{}
	v.Status = core.ProblemOf(err).Status
	if !fromUser {
		return
	}
	if options.ErrorStatus != nil {
		if status := options.ErrorStatus(c, err); status >= 400 && status < 500 {
			v.Status, v.AsIs = status, true
			if f := (functionError{}); errors.As(err, &f) {
				v.Err = f.error // as the function returned it
			}
			return
		}
	}
	ended := v.ctx.Err()
	switch {
	case v.Status != http.StatusInternalServerError:
	case errors.As(err, new(*http.MaxBytesError)):
		v.Status = http.StatusRequestEntityTooLarge
	case ended != nil && errors.Is(err, ended): // the client left, for instance, while its user was looked up
		v.Status = http.StatusServiceUnavailable
	}
}

// functionError is an error of the user's cost or limits function.
type functionError struct {
	name string
	error
}

func (f functionError) Error() string { return f.name + ": " + f.error.Error() }
func (f functionError) Unwrap() error { return f.error }

// Refuse describes the response to a Failed request. It shows nothing of v.Err. It logs v.Err if the status is 500,
// because that is a failure of the service, to the limiter's logger.
func Refuse(v Verdict) core.ProblemDetails {
	if v.Status == http.StatusInternalServerError {
		logger(v.limiter).ErrorContext(v.ctx, "ratelimit: request refused", "code", "RL709", "error", v.Err)
	}
	if p := core.ProblemOf(v.Err); p.Status == v.Status {
		return p
	}
	return core.ProblemDetails{Type: "about:blank", Title: http.StatusText(v.Status), Status: v.Status}
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
