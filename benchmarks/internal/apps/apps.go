// Package apps are whole web applications: a framework, a limiter whose state is in Redis, and one route. All are keyed by
// the same header field.
package apps

import (
	"fmt"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
	"github.com/tokenbucket-go/ratelimit/core"
)

const (
	// KeyHeader names the client of a request.
	KeyHeader = "X-Api-Key"
	// Path leads to the route of every application.
	Path = "/items/42"
)

// App is an application.
type App struct {
	Framework string
	Limiter   string // peers.Without for none

	// Sends is a header field that proves the limiter's work; "" if there is none.
	Sends string
	// KeysPerKey is how many Redis keys it uses for one client.
	KeysPerKey int64
	// New builds it with its buckets in a database of the server at addr.
	New func(to peers.Connection, l peers.Limit) (http.Handler, error)
}

// All are the applications: of gin first that without a limiter, then this library's.
var All = []App{
	{"gin", peers.Without, "", 0, ginWithout},
	{"gin", peers.Library, limitField, 1, ginLibrary(core.HeadersDefault)},
	{"gin", peers.LegacyFields, limitField, 1, ginLibrary(core.HeadersLegacy)},
	{"gin", peers.IETFFields, "Ratelimit", 1, ginLibrary(core.HeadersDraft8)},
	{"gin", peers.Ulule, limitField, 1, ginUlule},
	{"gin", peers.GinRateLimit, "X-Rate-Limit-Limit", 2, ginRateLimit},
	{"chi", peers.Library, limitField, 1, chiLibrary},
	{"chi", peers.Ulule, limitField, 1, chiUlule},
	{"chi", peers.HTTPRateRedis, limitField, 1, chiHTTPRate},
}

// limitField is among the default header fields of most limiters.
const limitField = "X-Ratelimit-Limit"

// Named is the application of a framework and a limiter.
func Named(framework, limiter string) (App, error) {
	for _, a := range All {
		if a.Framework == framework && a.Limiter == limiter {
			return a, nil
		}
	}
	return App{}, fmt.Errorf("no application of %s with %q", framework, limiter)
}
