package chilimit

import (
	"context"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

func middleware(engine *adapter.Engine[*http.Request], o *config) func(http.Handler) http.Handler {
	return nethttp.Middleware(engine, o.denied, o.failed)
}

// adapt turns a function on a Request into one on *http.Request.
func adapt[V any](f func(adapter.Request) (V, error)) func(*http.Request) (V, error) {
	return nethttp.Adapt(f, newRouter())
}

// stored returns the decision about the request whose context is ctx that was stored last.
func stored(ctx context.Context) *adapter.Decision { return nethttp.Stored(ctx) }
