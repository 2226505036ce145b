package apps

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

func chiApp(use ...func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(use...)
	r.Get("/items/{id}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	return r
}

func chiLibrary(to peers.Connection, l peers.Limit) (http.Handler, error) {
	limiter, err := peers.LibraryOnRedis(to, l, core.HeadersDefault)
	if err != nil {
		return nil, err
	}
	return chiApp(chilimit.New(limiter, chilimit.ByHeader(KeyHeader))), nil
}

// chiUlule uses ulule/limiter's middleware for net/http, which is chi's kind too.
func chiUlule(to peers.Connection, l peers.Limit) (http.Handler, error) {
	limiter, err := peers.UluleOnRedis(to, l)
	key := func(r *http.Request) string { return r.Header.Get(KeyHeader) }
	return chiApp(ululehttp.NewMiddleware(limiter, ululehttp.WithKeyGetter(key)).Handler), err
}

func chiHTTPRate(to peers.Connection, l peers.Limit) (http.Handler, error) {
	key := func(r *http.Request) (string, error) { return r.Header.Get(KeyHeader), nil }
	return chiApp(peers.HTTPRateOnRedis(to, l, httprate.WithKeyFuncs(key)).Handler), nil
}
