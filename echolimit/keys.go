package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// KeyFunc returns the key of a request: who or what is limited. Without a key it returns [core.ErrNoKey]. That and an
// empty key are answered with 400. An [echo.HTTPError] below 500 is answered as it is, any other error
// with 500, and it is logged. Begin a key of your own with its kind: core.JoinKey("user", id).
type KeyFunc func(echo.Context) (string, error)

// keyed turns a common extractor into a KeyFunc.
func keyed(key adapter.KeyFunc) KeyFunc { return adapter.AdaptPooled(key, requests) }

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

// ByParam limits by a parameter of the route, such as id in /items/{id}, percent-decoded.
func ByParam(name string) KeyFunc { return keyed(adapter.ByParam(name)) }

// ByMethod limits by the request's method: one of RFC 9110, or PATCH. All other methods share one key.
func ByMethod() KeyFunc { return keyed(adapter.ByMethod()) }

// ByPath limits by the path as requested, percent-decoded. Clients choose the path: join it with a key of the client,
// or use ByRoute.
func ByPath() KeyFunc { return keyed(adapter.ByPath()) }

// ByRoute limits by the pattern that matched, such as /items/:id, without its method. Requests that match no route
// share one key. In e.Pre the route is not known yet.
func ByRoute() KeyFunc {
	return keyed(adapter.ByRoute("install the limiter with e.Use, not e.Pre, and limit requests without a route by another key"))
}

// ByContextValue limits by a value that earlier middleware left in the request's context: a string, an integer or
// another fmt.Stringer. See [adapter.ByContextValue].
func ByContextValue(key any) KeyFunc { return keyed(adapter.ByContextValue(key)) }

// Global limits all requests together.
func Global(name string) KeyFunc { return keyed(adapter.Global(name)) }

// Join limits by several keys together. Different keys never become the same one. See [adapter.Join].
func Join(keys ...KeyFunc) KeyFunc { return adapter.Join[echo.Context](keys...) }

// FirstOf limits by the first key that is not missing. See [adapter.FirstOf].
func FirstOf(keys ...KeyFunc) KeyFunc { return adapter.FirstOf[echo.Context](keys...) }
