// Package httplimit limits requests in net/http with token buckets:
//
//	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
//		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
//	}))
//	http.Handle("/", httplimit.New(limiter, httplimit.ByIP())(handler))
//
// It works with every router that takes func(http.Handler) http.Handler; for chi see chilimit.
package httplimit

import (
	"context"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// New returns a middleware that lets a request pass when limiter has tokens for its key.
//
// Headers are those of the policy. A denied request gets 429 and an application/problem+json body
// (RFC 9457), one without a key 400, and one that can't be decided 503 or 500; see OnDenied and
// OnError. New panics with every static mistake in its arguments: a nil limiter or key, and what a key or cost
// function can't be made of, such as a bad address range.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) func(http.Handler) http.Handler {
	var c nethttp.Config
	for _, option := range options {
		if option != nil {
			option(&c)
		}
	}
	return nethttp.New(limiter, key, c)
}

// FromContext returns the decision about the request whose context ctx is: of several limiters, the
// one nearest to the handler.
func FromContext(ctx context.Context) (core.Result, bool) { return nethttp.FromContext(ctx) }

// router reads what http.ServeMux knows of a request: mux when it is given, else the one that the
// request last came through.
func router(mux *http.ServeMux) nethttp.Router {
	return nethttp.Router{
		Route: func(r *http.Request) (string, bool) {
			pattern := r.Pattern
			if mux != nil {
				_, pattern = mux.Handler(r)
			}
			// [METHOD ][HOST]/[PATH]: the method is ByMethod's.
			if method, rest, ok := strings.Cut(pattern, " "); ok && !strings.Contains(method, "/") {
				pattern = strings.TrimLeft(rest, " \t")
			}
			return pattern, pattern != ""
		},
		Param: func(r *http.Request, name string) string { return r.PathValue(name) },
	}
}
