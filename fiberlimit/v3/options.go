package fiberlimit

import (
	"github.com/gofiber/fiber/v3"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

type config struct {
	adapter.Options[fiber.Ctx]
	denied func(fiber.Ctx, core.Result) error
	failed func(fiber.Ctx, error) error
}

// Option is an option of [New].
type Option func(*config)

// WithCost sets how many tokens a request takes of the limits that count requests. The default is 1; 0 takes none. An estimate
// for limits of another unit belongs in [WithUnits]. An error is answered as that of a [KeyFunc] is, except that
// [core.ErrUnknownCost] costs the whole Capacity. If no limit of the policy counts requests, New panics.
func WithCost(cost func(fiber.Ctx) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// CostByContentLength returns a cost for [WithCost]: one token for every bytesPerToken bytes of the request's body,
// rounded up, and at least one. The size is that of Content-Length, so compressed bodies count compressed. A body of
// unknown length (chunked) costs the whole Capacity. If bytesPerToken is below 1, New panics.
func CostByContentLength(bytesPerToken int64) func(fiber.Ctx) (int64, error) {
	return adapter.AdaptPooled(adapter.CostByContentLength(bytesPerToken), requests)
}

// CostByContentLengthOr is [CostByContentLength] with another cost for a body of unknown length: unknown tokens, at
// least 1.
func CostByContentLengthOr(bytesPerToken, unknown int64) func(fiber.Ctx) (int64, error) {
	return adapter.AdaptPooled(adapter.CostByContentLengthOr(bytesPerToken, unknown), requests)
}

// WithUnits sets what a request takes besides requests, such as tokens: see [core.Units]. A nil map takes nothing else. Of
// several limiters each takes the units that it counts. An error is answered as that of a [KeyFunc] is.
func WithUnits(units func(fiber.Ctx) (core.Units, error)) Option {
	return func(o *config) { o.Units = units }
}

// WithSettle corrects what a request took when its response is over: settle returns what it really took. Units that it
// leaves out keep what was charged, and nil changes nothing. See [core.Result.Settle]. It is called once for each request
// that was allowed, also if the client has gone. A settlement that fails, because the store does not answer, is logged, and
// observers receive it as [core.OutcomeUnsettled]. Wrong units and a panic of settle are logged. Then what was charged
// stays, and the client sees nothing of it. It can't be used together with [WithRefund]: 0 requests are a refund.
//
// The response is over when the handler has returned or panicked, or, if its body is a stream, when that was sent or the
// client has gone, or, if the connection was hijacked, as for a WebSocket, when its handler has returned. Of the last two, c
// is another one for the same request: it has its header, body and Locals, but no route. If the client has gone, the
// function that writes the stream may still run, until its next flush fails. If it goes before the answer to its upgrade is
// sent, or sends Connection: close with its upgrade, fasthttp drops the request: settle is not called, and what was charged
// stays. If fiber's timeout middleware behind this one gives up on a handler, settle is called then, while the handler may
// still use c. The status of an error that the handler returned is as for [WithRefund].
func WithSettle(settle func(c fiber.Ctx, status int) core.Units) Option {
	return func(o *config) { o.Settle = settle }
}

// WithLimits sets the limits of a request, such as those of its user's plan. Nil means the limits of the policy. An
// error is answered as that of a [KeyFunc] is. See [core.Limiter.WithLimits].
func WithLimits(limits func(fiber.Ctx) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithSkip lets a request pass if skip returns true. It is not counted, and its response has no header fields of the
// limit.
func WithSkip(skip func(fiber.Ctx) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund returns a request's tokens if refund returns true for the status of its response. Use it to count failed
// logins only, or not to count errors of the service.
//
// If the handler returns an error, the code of its [fiber.Error] counts. Of any other error the status counts that
// the app's error handler sends: then refund is called after the response, with another c for the same request, which has
// its header, body and Locals, but no route. A panic counts as 500, whatever middleware in front answers.
func WithRefund(refund func(c fiber.Ctx, status int) bool) Option {
	return func(o *config) { o.Refund = refund }
}

// OnDenied answers a denied request. It replaces the error with status 429: the middleware returns what denied
// returns. The header fields are already set. If it returns nil and wrote nothing, as one that only
// logs, the default answer follows.
func OnDenied(denied func(c fiber.Ctx, res core.Result) error) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a request that has no decision. It replaces 400 ([core.ErrNoKey], [core.ErrBadKey]), 503
// ([core.ErrUnavailable], or the request's context has ended) and 500 (a key, cost or limits function failed). If it
// writes nothing, the default answer follows. Don't show err to clients.
func OnError(failed func(c fiber.Ctx, err error) error) Option {
	return func(o *config) { o.failed = failed }
}
