package httplimit

import (
	"context"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

func install(engine *adapter.Engine[*http.Request], o *config) func(http.Handler) http.Handler {
	return nethttp.Middleware(engine, o.denied, o.failed)
}

// Allow takes a token of key's bucket from within a handler, for keys that only
// the handler knows, such as the user name in a JSON body. It sets the header
// fields, and if there is no token, or no decision, it answers as a middleware
// of [New] does and returns false: the handler then returns. The Result can
// give the token back: see [core.Result.Undo]. If limiter has slots, defer its
// Release. [FromContext] returns the Result too, but only behind a middleware
// of New, because a handler can't add to its request's context.
//
// If the key has the client's address in it, take that from [ClientIP].
//
// Call it before the response has begun, and from one goroutine at a time,
// because it writes to the response. Each call adds to the header fields: in
// streams, WebSockets and loops use [core.Limiter.Allow]. If limiter counts no
// requests the answer is 500. Allow panics if limiter is nil.
func Allow(w http.ResponseWriter, r *http.Request, limiter *core.Limiter, key string) (res core.Result, allowed bool) {
	return nethttp.Allow(w, r, limiter, key)
}

// adapt turns a function on a Request into one on *http.Request.
func adapt[V any](f func(adapter.Request) (V, error)) func(*http.Request) (V, error) {
	return nethttp.Adapt(f, behindMux)
}

// stored returns the decision about the request whose context is ctx that was
// stored last.
func stored(ctx context.Context) *middleware.Decision { return nethttp.Stored(ctx) }

// ByRouteOf is [ByRoute] for a limiter in front of mux. It asks mux.Handler
// which pattern a request matches. If mux is nil, New panics.
func ByRouteOf(mux *http.ServeMux) KeyFunc {
	if mux == nil {
		return middleware.BadArgument[*http.Request, string]("ByRouteOf mux", nil, "must be the mux that the limiter stands in front of")
	}
	return nethttp.Adapt(adapter.ByRoute("limit requests that match no pattern of the mux by another key"), inFrontOf(mux))
}

// behindMux reads what the mux that a request last passed through has stored in
// it.
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

// route is a mux's pattern as ByRoute has it. known is false if the pattern is
// empty, because no pattern matched.
func route(pattern string) (withoutMethod string, known bool) {
	pattern = adapter.WithoutMethod(pattern)
	return pattern, pattern != ""
}
