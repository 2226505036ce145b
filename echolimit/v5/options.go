package echolimit

import (
	"github.com/labstack/echo/v5"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

type config struct {
	adapter.Options[*echo.Context]
	denied func(*echo.Context, core.Result) error
	failed func(*echo.Context, error) error
}

// Option is an option of [New].
type Option func(*config)

// WithCost sets how many tokens a request takes: by default 1; 0 takes none. An error is answered as a
// [KeyFunc]'s is, but [core.ErrUnknownCost] costs the whole Capacity.
func WithCost(cost func(*echo.Context) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// CostByContentLength is a cost for WithCost: a token for each bytesPerToken of the request's body, begun ones
// included, and at least one. A body of unknown length (chunked) costs the whole Capacity, or what unknown
// says. It goes by Content-Length, so compressed bodies count compressed.
func CostByContentLength(bytesPerToken int64, unknown ...int64) func(*echo.Context) (int64, error) {
	return adapter.Show(adapter.CostByContentLength(bytesPerToken, unknown...), show)
}

// WithLimits holds a request to other limits than the policy's, such as those of its user's plan; nil
// keeps the policy's own. An error is answered as a [KeyFunc]'s is. See [core.Limiter.WithLimits].
func WithLimits(limits func(*echo.Context) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithSkip lets the requests for which skip is true through: not counted, without headers.
func WithSkip(skip func(*echo.Context) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund gives a request's tokens back when refund is true for the status it was answered with:
// to count failed logins only, or not to count errors of the service.
//
// It is asked when the response's header is written through echo, by whomever: the handler, other
// middleware, the app's error handler. When the handler returns nil and nothing is written, it is asked
// about net/http's 200, and again, unless it has given the tokens back, if middleware in front answers
// something else. Echo does not tell a middleware how a request ends, so it is not asked, and the tokens
// stay taken, when middleware in front drops the handler's error and writes nothing, or wraps the response
// and nothing is written to it: let such middleware stand behind the limiter. Nor can it know of what is
// written to the http.ResponseWriter below echo's, or of a response in a wrapper without Unwrap.
func WithRefund(refund func(c *echo.Context, status int) bool) Option {
	return func(o *config) { o.Refund = refund }
}

// OnDenied answers a denied request in place of the error with status 429: what it returns is what
// the middleware returns. The header fields are written already.
func OnDenied(denied func(c *echo.Context, res core.Result) error) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a request that could not be decided, in place of 400 ([core.ErrNoKey], [core.ErrBadKey]), 503
// ([core.ErrUnavailable], a context that ended) or 500 (a key, cost or limits function failed). Don't
// show err to clients.
func OnError(failed func(c *echo.Context, err error) error) Option {
	return func(o *config) { o.failed = failed }
}
