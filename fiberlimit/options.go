package fiberlimit

import (
	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

type config struct {
	adapter.Options[*fiber.Ctx]
	denied func(*fiber.Ctx, core.Result) error
	failed func(*fiber.Ctx, error) error
}

// Option is an option of [New].
type Option func(*config)

// WithCost sets how many tokens a request takes: by default 1; 0 takes none. An error is answered as a
// [KeyFunc]'s is, but [core.ErrUnknownCost] costs the whole Capacity.
func WithCost(cost func(*fiber.Ctx) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// CostByContentLength is a cost for WithCost: a token for each bytesPerToken of the request's body, begun ones
// included, and at least one. A body of unknown length (chunked) costs the whole Capacity, or what unknown
// says. It goes by Content-Length, so compressed bodies count compressed.
func CostByContentLength(bytesPerToken int64, unknown ...int64) func(*fiber.Ctx) (int64, error) {
	return adapter.Show(adapter.CostByContentLength(bytesPerToken, unknown...), show)
}

// WithLimits holds a request to other limits than the policy's, such as those of its user's plan; nil
// keeps the policy's own. An error is answered as a [KeyFunc]'s is. See [core.Limiter.WithLimits].
func WithLimits(limits func(*fiber.Ctx) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithSkip lets the requests for which skip is true through: not counted, without headers.
func WithSkip(skip func(*fiber.Ctx) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund gives a request's tokens back when refund is true for the status it was answered with:
// to count failed logins only, or not to count errors of the service. An error that a handler returns
// counts by the code of its [fiber.Error], any other as 500: the app's error handler runs later. A panic counts
// as 500 too, whatever middleware in front makes of it.
func WithRefund(refund func(c *fiber.Ctx, status int) bool) Option {
	return func(o *config) { o.Refund = refund }
}

// OnDenied answers a denied request in place of the error with status 429: what it returns is what
// the middleware returns. The header fields are written already.
func OnDenied(denied func(c *fiber.Ctx, res core.Result) error) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a request that could not be decided, in place of 400 ([core.ErrNoKey], [core.ErrBadKey]), 503
// ([core.ErrUnavailable], a context that ended) or 500 (a key, cost or limits function failed). Don't
// show err to clients.
func OnError(failed func(c *fiber.Ctx, err error) error) Option {
	return func(o *config) { o.failed = failed }
}
