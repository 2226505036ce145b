package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

type config struct {
	adapter.Options[echo.Context]
	denied func(echo.Context, core.Result) error
	failed func(echo.Context, error) error
}

// Option is an option of [New].
type Option func(*config)

// WithCost sets how many tokens a request takes of the limits that count requests. The default is 1; 0 takes none. An estimate
// for limits of another unit belongs in [WithUnits]. An error is answered as that of a [KeyFunc] is, except that
// [core.ErrUnknownCost] costs the whole Capacity. If no limit of the policy counts requests, New panics.
func WithCost(cost func(echo.Context) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// CostByContentLength returns a cost for [WithCost]: one token for every bytesPerToken bytes of the request's body,
// rounded up, and at least one. The size is that of Content-Length, so compressed bodies count compressed. A body of
// unknown length (chunked) costs the whole Capacity. If bytesPerToken is below 1, New panics.
func CostByContentLength(bytesPerToken int64) func(echo.Context) (int64, error) {
	return adapter.AdaptPooled(adapter.CostByContentLength(bytesPerToken), requests)
}

// CostByContentLengthOr is [CostByContentLength] with another cost for a body of unknown length: unknown tokens, at
// least 1.
func CostByContentLengthOr(bytesPerToken, unknown int64) func(echo.Context) (int64, error) {
	return adapter.AdaptPooled(adapter.CostByContentLengthOr(bytesPerToken, unknown), requests)
}

// WithUnits sets what a request takes besides requests, such as tokens: see [core.Units]. A nil map takes nothing else. Of
// several limiters each takes the units that it counts. An error is answered as that of a [KeyFunc] is.
func WithUnits(units func(echo.Context) (core.Units, error)) Option {
	return func(o *config) { o.Units = units }
}

// WithSettle corrects what a request took when its response is over: settle returns what it really took. Units that it
// leaves out keep what was charged, and nil changes nothing. See [core.Result.Settle]. It is called once for each request
// that was allowed, also if the client has gone. A settlement that fails, because the store does not answer, is logged, and
// observers receive it as [core.OutcomeUnsettled]. Wrong units and a panic of settle are logged. Then what was charged
// stays, and the client sees nothing of it. It can't be used together with [WithRefund]: 0 requests are a refund.
//
// The response is over when the handler has returned or panicked, also a streamed one. The status of an error that the
// handler returned is that of its [echo.HTTPError], or 500: the app's error handler runs later. A hijacked
// connection counts as 200.
func WithSettle(settle func(c echo.Context, status int) core.Units) Option {
	return func(o *config) { o.Settle = settle }
}

// WithLimits sets the limits of a request, such as those of its user's plan. Nil means the limits of the policy. An
// error is answered as that of a [KeyFunc] is. See [core.Limiter.WithLimits].
func WithLimits(limits func(echo.Context) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithSkip lets a request pass if skip returns true. It is not counted, and its response has no header fields of the
// limit.
func WithSkip(skip func(echo.Context) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund returns a request's tokens if refund returns true for the status of its response. Use it to count failed
// logins only, or not to count errors of the service.
//
// refund is called when the handler, other middleware or the app's error handler writes the response's header through
// echo. If the handler returns nil and writes nothing, refund is called with the 200 that net/http sends. It is called
// again if middleware in front writes another status, unless the tokens were already returned. A hijacked connection, such
// as a WebSocket's, counts as 200, however its handler ends.
//
// Echo does not tell middleware how a request ends. If middleware in front drops the handler's error and writes
// nothing, refund is not called and the tokens stay taken. Install such middleware behind the limiter. What is written
// to the http.ResponseWriter below echo's does not count either.
func WithRefund(refund func(c echo.Context, status int) bool) Option {
	return func(o *config) { o.Refund = refund }
}

// OnDenied answers a denied request. It replaces the error with status 429: the middleware returns what denied
// returns. The header fields are already set. If it returns nil and wrote nothing, as one that only
// logs, the default answer follows.
func OnDenied(denied func(c echo.Context, res core.Result) error) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a request that has no decision. It replaces 400 ([core.ErrNoKey], [core.ErrBadKey]), 503
// ([core.ErrUnavailable], or the request's context has ended) and 500 (a key, cost or limits function failed). If it
// writes nothing, the default answer follows. Don't show err to clients.
func OnError(failed func(c echo.Context, err error) error) Option {
	return func(o *config) { o.failed = failed }
}
