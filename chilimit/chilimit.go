package chilimit

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
	return nethttp.Adapt(f, newRouter())
}

// stored returns the decision about the request whose context is ctx that was
// stored last.
func stored(ctx context.Context) *middleware.Decision { return nethttp.Stored(ctx) }
