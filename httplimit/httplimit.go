// Package httplimit limits requests in net/http with token buckets:
//
//	http.Handle("/", httplimit.PerIP(core.PerMinute(60).WithBurst(20))(handler))
//
// [PerIP] limits each client address in this process. [New] is for everything else, such as buckets in Redis and other keys:
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	http.Handle("/", httplimit.New(limiter, httplimit.ByHeader("X-Api-Key"))(handler))
//
// It works with every router that takes func(http.Handler) http.Handler. For chi, use package chilimit.
package httplimit

import (
	"context"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// New returns a middleware that lets a request pass if limiter has tokens for its key.
//
// The policy chooses the header fields. A denied request is answered with 429 and an application/problem+json body
// (RFC 9457), a request without a key with 400, and one that can't be decided with 503 or 500. [OnDenied] and [OnError]
// replace these answers.
//
// New panics with all mistakes in its arguments: a nil limiter, a nil key, and a key or cost function that was made from
// bad arguments, such as a bad address range.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) func(http.Handler) http.Handler {
	return nethttp.New(limiter, key, configured(options))
}

// PerIP returns a middleware that limits each client address, in this process alone: New with a MemoryStore and ByIP. A request
// takes one token from each of limits, or is denied. PerIP panics with all mistakes in limits.
//
// Use [New] for everything else: buckets in Redis that all replicas share, other keys, and options. Behind a proxy use New
// with ByIP(core.TrustProxies(…)): here all clients of a proxy share its address.
func PerIP(limits ...core.Limit) func(http.Handler) http.Handler {
	return New(adapter.InProcess(limits), ByIP())
}

// configured returns what options set.
func configured(options []Option) (c nethttp.Config) {
	for _, option := range options {
		if option != nil {
			option(&c)
		}
	}
	return c
}

// FromContext returns the decision about the request whose context is ctx. Of several limiters, that is the decision of
// the one nearest to the handler.
func FromContext(ctx context.Context) (core.Result, bool) { return nethttp.FromContext(ctx) }

// behindMux reads what the mux that a request last passed through has stored in it.
var behindMux = nethttp.Router{
	Route: func(r *http.Request) (string, bool) { return route(r.Pattern) },
	Param: (*http.Request).PathValue,
}

// inFrontOf asks mux which pattern a request matches.
func inFrontOf(mux *http.ServeMux) nethttp.Router {
	return nethttp.Router{
		Route: func(r *http.Request) (string, bool) {
			_, pattern := mux.Handler(r)
			return route(pattern)
		},
		Param: (*http.Request).PathValue,
	}
}

// route removes the method from a mux's pattern, [METHOD ][HOST]/[PATH]: methods are limited by ByMethod. known is false
// if the pattern is empty, because no pattern matched.
func route(pattern string) (withoutMethod string, known bool) {
	if method, rest, ok := strings.Cut(pattern, " "); ok && !strings.Contains(method, "/") {
		pattern = strings.TrimLeft(rest, " \t")
	}
	return pattern, pattern != ""
}
