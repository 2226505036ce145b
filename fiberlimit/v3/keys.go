package fiberlimit

import (
	"github.com/gofiber/fiber/v3"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// KeyFunc reads from a request who is limited. Without a key it returns [core.ErrNoKey]; an empty key
// counts as that: 400. A [fiber.Error] below 500 is answered as it is; any other error is 500 and logged.
// Begin keys of your own with their kind: core.JoinKey("user", id).
type KeyFunc func(fiber.Ctx) (string, error)

// keyed makes a KeyFunc of a common extractor.
func keyed(key adapter.KeyFunc) KeyFunc { return adapter.Show(key, show) }

func show(c fiber.Ctx) adapter.Exchange { return exchange{c} }

// ByIP limits by the client's address: the peer's, or what [core.TrustProxies] makes of it. IPv6
// addresses are grouped by /64.
func ByIP(options ...core.IPOption) KeyFunc { return keyed(adapter.ByIP(options...)) }

// ByHeader limits by a request header field, such as an API key. Several lines with different values, or several
// spellings, are answered 400; but of User-Agent and Content-Type, of which fasthttp keeps one, the last counts.
func ByHeader(name string) KeyFunc { return keyed(adapter.ByHeader(name)) }

// ByCookie limits by a cookie's value.
func ByCookie(name string) KeyFunc { return keyed(adapter.ByCookie(name)) }

// ByQuery limits by a query parameter.
func ByQuery(name string) KeyFunc { return keyed(adapter.ByQuery(name)) }

// ByParam limits by a parameter of the route, such as id in /items/{id}, percent-decoded.
func ByParam(name string) KeyFunc { return keyed(adapter.ByParam(name)) }

// ByMethod limits by the request's method. Those outside RFC 9110 and PATCH share one key.
func ByMethod() KeyFunc { return keyed(adapter.ByMethod()) }

// ByPath limits by the path as requested, percent-decoded. Clients choose it: join it with who they are, or
// use ByRoute.
func ByPath() KeyFunc { return keyed(adapter.ByPath()) }

// ByRoute limits by the pattern that matched, such as /items/:id, without its method. Fiber knows it
// only in handlers of the route itself, app.Get("/items/:id", limit, handler): in app.Use it is the
// path that Use was given.
func ByRoute() KeyFunc {
	return keyed(adapter.ByRoute("install the limiter at the route, as in app.Get(path, limiter, handler)"))
}

// ByContextValue limits by a value that earlier middleware left in the request's context: a string, an integer, or
// another fmt.Stringer. See [adapter.ByContextValue].
func ByContextValue(key any) KeyFunc { return keyed(adapter.ByContextValue(key)) }

// Global limits all requests together.
func Global(name string) KeyFunc { return keyed(adapter.Global(name)) }

// Join limits by several keys together; different keys never make the same.
func Join(keys ...KeyFunc) KeyFunc { return adapter.Join[fiber.Ctx](keys...) }

// FirstOf limits by the first key that is not missing.
func FirstOf(keys ...KeyFunc) KeyFunc { return adapter.FirstOf[fiber.Ctx](keys...) }
