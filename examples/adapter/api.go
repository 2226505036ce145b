package fasthttplimit

import (
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/valyala/fasthttp"
)

// KeyFunc returns the key of a request: who or what is limited. Without a key it returns [core.ErrNoKey].
type KeyFunc func(*fasthttp.RequestCtx) (string, error)

func keyed(key adapter.KeyFunc) KeyFunc { return adapter.Adapt(key, asRequest) }

func asRequest(c *fasthttp.RequestCtx) adapter.Request { return request{c} }

// ByIP limits by the client's address.
func ByIP(options ...core.IPOption) KeyFunc { return keyed(adapter.ByIP(options...)) }

// ClientIP tells handlers what ByIP limits by.
func ClientIP(options ...core.IPOption) func(*fasthttp.RequestCtx) (string, error) {
	return adapter.Adapt(adapter.ClientIP(options...), asRequest)
}

// ByHeader limits by a request header field.
func ByHeader(name string) KeyFunc { return keyed(adapter.ByHeader(name)) }

// ByCookie limits by a cookie's value.
func ByCookie(name string) KeyFunc { return keyed(adapter.ByCookie(name)) }

// ByQuery limits by a query parameter.
func ByQuery(name string) KeyFunc { return keyed(adapter.ByQuery(name)) }

// ByParam limits by a parameter of the route.
func ByParam(name string) KeyFunc { return keyed(adapter.ByParam(name)) }

// ByMethod limits by the request's method.
func ByMethod() KeyFunc { return keyed(adapter.ByMethod()) }

// ByPath limits by the path as requested, percent-decoded.
func ByPath() KeyFunc { return keyed(adapter.ByPath()) }

// ByRoute limits by the pattern that matched.
func ByRoute() KeyFunc {
	return keyed(adapter.ByRoute("let the router run before the limiter"))
}

// ByContextValue limits by a value that earlier middleware left.
func ByContextValue(key any) KeyFunc { return keyed(adapter.ByContextValue(key)) }

// Global limits all requests together.
func Global(name string) KeyFunc { return keyed(adapter.Global(name)) }

// Join limits by several keys together.
func Join(keys ...KeyFunc) KeyFunc { return middleware.Join[*fasthttp.RequestCtx](keys...) }

// FirstOf limits by the first key that is not missing.
func FirstOf(keys ...KeyFunc) KeyFunc { return middleware.FirstOf[*fasthttp.RequestCtx](keys...) }

type config struct {
	adapter.Options[*fasthttp.RequestCtx]
	denied func(*fasthttp.RequestCtx, core.Result)
	failed func(*fasthttp.RequestCtx, error)
}

// Option is an option of [New].
type Option func(*config)

// WithCost sets how many tokens a request takes.
func WithCost(cost func(*fasthttp.RequestCtx) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// CostByContentLength is a cost for WithCost: a token for each bytesPerToken of the request's body.
func CostByContentLength(bytesPerToken int64) func(*fasthttp.RequestCtx) (int64, error) {
	return adapter.Adapt(adapter.CostByContentLength(bytesPerToken), asRequest)
}

// CostByContentLengthOr is CostByContentLength with another cost for a body of unknown length.
func CostByContentLengthOr(bytesPerToken, unknown int64) func(*fasthttp.RequestCtx) (int64, error) {
	return adapter.Adapt(adapter.CostByContentLengthOr(bytesPerToken, unknown), asRequest)
}

// WithUnits sets what a request takes besides requests, such as tokens.
func WithUnits(units func(*fasthttp.RequestCtx) (core.Units, error)) Option {
	return func(o *config) { o.Units = units }
}

// WithFloor sets what a request must leave of the limits that it takes from.
func WithFloor(floor func(*fasthttp.RequestCtx) (core.Units, error)) Option {
	return func(o *config) { o.Floor = floor }
}

// WithSettle corrects what a request took when its response is over. If its body is a stream, or the connection was hijacked, c
// has no user values then.
func WithSettle(settle func(c *fasthttp.RequestCtx, status int) core.Units) Option {
	return func(o *config) { o.Settle = settle }
}

// WithLimits sets the limits of a request. Nil means those of the policy.
func WithLimits(limits func(*fasthttp.RequestCtx) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithPlan sets the plan of a request, a name in Policy.Plans. See [core.Limiter.WithPlan].
func WithPlan(plan func(*fasthttp.RequestCtx) (string, error)) Option {
	return func(o *config) { o.Plan = plan }
}

// WithSkip lets a request pass, uncounted, if skip returns true.
func WithSkip(skip func(*fasthttp.RequestCtx) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund returns a request's tokens if refund returns true for its status.
func WithRefund(refund func(c *fasthttp.RequestCtx, status int) bool) Option {
	return func(o *config) { o.Refund = refund }
}

// OnDenied answers a denied request. It replaces 429.
func OnDenied(denied func(*fasthttp.RequestCtx, core.Result)) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a request that has no decision.
func OnError(failed func(*fasthttp.RequestCtx, error)) Option {
	return func(o *config) { o.failed = failed }
}
