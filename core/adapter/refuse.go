package adapter

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Refuse describes the response to a request that Failed. It shows nothing of err, so a failure of
// the service's own (500) is logged.
func Refuse(ctx context.Context, err error) core.ProblemDetails {
	p := core.ProblemOf(err)
	if p.Status == http.StatusInternalServerError {
		slog.ErrorContext(ctx, "ratelimit: request refused", "error", err)
	}
	return p
}

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
