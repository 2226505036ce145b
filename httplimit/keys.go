package httplimit

import (
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// KeyFunc returns the key of a request: who or what is limited. Without a key it returns [core.ErrNoKey]. That and an
// empty key are answered with 400. An [http.MaxBytesError] is answered with 413, any other
// error with 500, and it is logged: see [OnError]. Begin a key of your own with its kind: core.JoinKey("user", id).
type KeyFunc func(*http.Request) (string, error)

// keyed turns a common extractor into a KeyFunc.
func keyed(key adapter.KeyFunc) KeyFunc { return behindMux.Key(key) }

// ByIP limits by the client's address. It is the address of the connection's peer, or the one that a trusted proxy
// reports: see [core.TrustProxies]. IPv6 addresses are grouped by /64.
func ByIP(options ...core.IPOption) KeyFunc { return keyed(adapter.ByIP(options...)) }

// ByHeader limits by a request header field, such as an API key. If the field came several times with different values,
// the answer is 400.
func ByHeader(name string) KeyFunc { return keyed(adapter.ByHeader(name)) }

// ByCookie limits by a cookie's value.
func ByCookie(name string) KeyFunc { return keyed(adapter.ByCookie(name)) }

// ByQuery limits by a query parameter.
func ByQuery(name string) KeyFunc { return keyed(adapter.ByQuery(name)) }

// ByParam limits by a wildcard of the route, such as id in /items/{id}. It works only behind the mux, where the route
// is known.
func ByParam(name string) KeyFunc { return keyed(adapter.ByParam(name)) }

// ByMethod limits by the request's method: one of RFC 9110, or PATCH. All other methods share one key.
func ByMethod() KeyFunc { return keyed(adapter.ByMethod()) }

// ByPath limits by the path as requested, percent-decoded. Clients choose the path: join it with a key of the client,
// or use ByRoute.
func ByPath() KeyFunc { return keyed(adapter.ByPath()) }

// ByRoute limits by the pattern that matched, such as /items/{id}, without its method. Requests that match no pattern
// share one key. In front of the mux no pattern is known yet: use [ByRouteOf].
func ByRoute() KeyFunc {
	return behindMux.Key(adapter.ByRoute("install the limiter behind the mux, or use httplimit.ByRouteOf(mux)"))
}

// ByRouteOf is [ByRoute] for a limiter in front of mux. It asks mux.Handler which pattern a request matches. If mux is
// nil, New panics.
func ByRouteOf(mux *http.ServeMux) KeyFunc {
	if mux == nil {
		return adapter.BadArgument[*http.Request, string]("ByRouteOf mux", nil, "must be the mux that the limiter stands in front of")
	}
	return inFrontOf(mux).Key(adapter.ByRoute("limit requests that match no pattern of the mux by another key"))
}

// ByContextValue limits by a value that earlier middleware left in the request's context: a string, an integer or
// another fmt.Stringer. See [adapter.ByContextValue].
func ByContextValue(key any) KeyFunc { return keyed(adapter.ByContextValue(key)) }

// Global limits all requests together.
func Global(name string) KeyFunc { return keyed(adapter.Global(name)) }

// Join limits by several keys together. Different keys never become the same one. See [adapter.Join].
func Join(keys ...KeyFunc) KeyFunc { return adapter.Join[*http.Request](keys...) }

// FirstOf limits by the first key that is not missing. See [adapter.FirstOf].
func FirstOf(keys ...KeyFunc) KeyFunc { return adapter.FirstOf[*http.Request](keys...) }
