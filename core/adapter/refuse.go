package adapter

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Refuse describes the response to a request that Failed. It shows nothing of v.Err, so a failure of
// the service's own (500) is logged.
func Refuse(v Verdict) core.ProblemDetails {
	if v.Status == http.StatusInternalServerError {
		slog.ErrorContext(v.ctx, "ratelimit: request refused", "error", v.Err)
	}
	if p := core.ProblemOf(v.Err); p.Status == v.Status {
		return p
	}
	return core.ProblemDetails{Type: "about:blank", Title: http.StatusText(v.Status), Status: v.Status}
}

// fail says how a request is answered that err kept from being decided. own says that err is from a function of
// the user's: then a client error, in the framework's own terms or for a body above [http.MaxBytesReader]'s limit,
// is answered as what it is, and the end of the request's context is no failure of the service's.
func (e *Engine[C]) fail(c C, v *Verdict, err error, own bool) {
	v.Outcome, v.Err, v.Result = Failed, err, core.Result{}
	v.Status = core.ProblemOf(err).Status
	if !own {
		return
	}
	if e.options.ErrorStatus != nil {
		if status := e.options.ErrorStatus(c, err); status >= 400 && status < 500 {
			v.Status, v.AsIs = status, true
			if f := (functionError{}); errors.As(err, &f) {
				v.Err = f.error // as it was returned
			}
			return
		}
	}
	ended := v.ctx.Err()
	switch {
	case v.Status != http.StatusInternalServerError:
	case errors.As(err, new(*http.MaxBytesError)):
		v.Status = http.StatusRequestEntityTooLarge
	case ended != nil && errors.Is(err, ended): // as when the client leaves while its user is looked up
		v.Status = http.StatusServiceUnavailable
	}
}

// functionError is an error of a cost or limits function.
type functionError struct {
	name string
	error
}

func (f functionError) Error() string { return f.name + ": " + f.error.Error() }
func (f functionError) Unwrap() error { return f.error }

// WriteProblem answers with p as application/problem+json.
func WriteProblem(w http.ResponseWriter, p core.ProblemDetails) {
	body, err := json.Marshal(p)
	if err != nil { // strings and an integer can't fail
		body = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that has gone needs no answer
}
