// Package chilimit limits requests in chi with token buckets:
//
//	r := chi.NewRouter()
//	r.Use(chilimit.PerIP(core.PerMinute(60).WithBurst(20)))
//
// [PerIP] limits each client address in this process. [New] is for everything else, such as buckets in Redis and other keys:
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	r.Use(chilimit.New(limiter, chilimit.ByHeader("X-Api-Key")))
package chilimit

import (
	"context"
	"net/http"

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
