package adaptertest

import (
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Answer is how a call was answered.
type Answer struct {
	Status int         // of HTTP: see [StatusOf]
	Header http.Header // all header fields, metadata and trailers
	Body   string      // what the handler wrote, or the message of an error
	// Limits are the limits that lack tokens, as the details of a refusal name
	// them, and RetryAfter how long to wait by these details. Without them,
	// Body is the body of the response.
	Limits     []string
	RetryAfter time.Duration
	// Own says that OnDenied or OnError answered.
	Own bool
	// Gone says that the call has no answer, because its client left.
	Gone bool
}

// Gateway serves app to clients of HTTP on l, until Accept fails, as a gateway
// in front of an RPC server does. So rules for HTTP check interceptors. call
// makes the call of a request to app.Routes[route]. It must end when the
// request's context does.
func Gateway[M any](l net.Listener, app App[M], call func(r *http.Request, route int) Answer) error {
	mux := http.NewServeMux()
	for i, route := range app.Routes {
		mux.HandleFunc(route.Method+" "+route.Pattern, func(w http.ResponseWriter, r *http.Request) { respond(w, call(r, i)) })
	}
	return http.Serve(l, mux)
}

// respond writes the response to a request whose call was answered with a.
func respond(w http.ResponseWriter, a Answer) {
	if a.Gone {
		panic(http.ErrAbortHandler)
	}
	for name, values := range a.Header {
		for _, v := range values {
			w.Header().Add(name, v)
		}
	}
	if a.Status >= 400 {
		w.Header().Set("Cache-Control", "no-store") // trailers have none
	}
	if a.Own || a.Status < 400 {
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, a.Body)
		return
	}
	if a.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(a.RetryAfter.Seconds()))))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(a.Status)
	p := core.ProblemDetails{Type: "about:blank", Title: a.Body, Status: a.Status, ViolatedPolicies: a.Limits}
	if a.Limits != nil {
		p.Type = quotaExceeded
	}
	_ = json.NewEncoder(w).Encode(p)
}

// codes has the codes of gRPC and Connect by the status of HTTP that stands for
// them in the suite.
var codes = map[int]int{
	http.StatusOK: 0, http.StatusBadRequest: 3, http.StatusUnauthorized: 16, http.StatusForbidden: 7, http.StatusNotFound: 5,
	http.StatusConflict: 10, http.StatusUnprocessableEntity: 9, http.StatusTooManyRequests: 8, http.StatusInternalServerError: 13,
	http.StatusServiceUnavailable: 14, http.StatusTeapot: 12, http.StatusBadGateway: 2,
}

// CodeOf returns the code of gRPC and Connect that stands for a status.
// Statuses below 400 are no errors, so their code is 0. One without a code of
// its own is its code.
func CodeOf(status int) int {
	if status < 400 {
		return 0
	}
	if code, ok := codes[status]; ok {
		return code
	}
	return status
}

// StatusOf returns the status that stands for a code of gRPC and Connect. That
// of calls whose context has ended is 503.
func StatusOf(code int) int {
	if code == 1 || code == 4 {
		return http.StatusServiceUnavailable
	}
	for status, c := range codes {
		if c == code {
			return status
		}
	}
	return code
}
