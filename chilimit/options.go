package chilimit

import (
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// Option is an option of [New].
type Option func(*nethttp.Config)

// WithCost sets how many tokens a request takes: by default 1; 0 takes none. An error is answered as a
// [KeyFunc]'s is, but [core.ErrUnknownCost] costs the whole Capacity.
func WithCost(cost func(*http.Request) (int64, error)) Option {
	return func(c *nethttp.Config) { c.Cost = cost }
}

// CostByContentLength is a cost for WithCost: a token for each bytesPerToken of the request's body, begun ones
// included, and at least one. A body of unknown length (chunked) costs the whole Capacity, or what unknown
// says. It goes by Content-Length, so compressed bodies count compressed.
func CostByContentLength(bytesPerToken int64, unknown ...int64) func(*http.Request) (int64, error) {
	return nethttp.CostByContentLength(bytesPerToken, unknown...)
}

// WithLimits holds a request to other limits than the policy's, such as those of its user's plan; nil
// keeps the policy's own. An error is answered as a [KeyFunc]'s is. See [core.Limiter.WithLimits].
func WithLimits(limits func(*http.Request) ([]core.Limit, error)) Option {
	return func(c *nethttp.Config) { c.Limits = limits }
}

// WithSkip lets the requests for which skip is true through: not counted, without headers.
func WithSkip(skip func(*http.Request) bool) Option {
	return func(c *nethttp.Config) { c.Skip = skip }
}

// WithRefund gives a request's tokens back when refund is true for the status it was answered with:
// to count failed logins only, or not to count errors of the service. What was written counts,
// whatever becomes of the handler then: an upstream that hangs up behind a 200 is 200. A panic before that
// counts as 500, a hijacked connection as 200.
func WithRefund(refund func(r *http.Request, status int) bool) Option {
	return func(c *nethttp.Config) { c.Refund = refund }
}

// OnDenied answers a denied request in place of 429 and a problem body: status, then body. The header
// fields are set already.
func OnDenied(denied func(http.ResponseWriter, *http.Request, core.Result)) Option {
	return func(c *nethttp.Config) { c.Denied = denied }
}

// OnError answers a request that could not be decided, in place of 400 ([core.ErrNoKey], [core.ErrBadKey]), 503
// ([core.ErrUnavailable], a context that ended) or 500 (a key, cost or limits function failed). Don't
// show err to clients.
func OnError(failed func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(c *nethttp.Config) { c.Failed = failed }
}
