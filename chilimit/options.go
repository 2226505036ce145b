package chilimit

import (
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// Option is an option of [New].
type Option func(*nethttp.Config)

// WithCost sets how many tokens a request takes of the limits that count requests. The default is 1; 0 takes none. An estimate
// for limits of another unit belongs in [WithUnits]. An error is answered as that of a [KeyFunc] is, except that
// [core.ErrUnknownCost] costs the whole Capacity. If no limit of the policy counts requests, New panics.
func WithCost(cost func(*http.Request) (int64, error)) Option {
	return func(c *nethttp.Config) { c.Cost = cost }
}

// CostByContentLength returns a cost for [WithCost]: one token for every bytesPerToken bytes of the request's body,
// rounded up, and at least one. The size is that of Content-Length, so compressed bodies count compressed. A body of
// unknown length (chunked) costs the whole Capacity. If bytesPerToken is below 1, New panics.
func CostByContentLength(bytesPerToken int64) func(*http.Request) (int64, error) {
	return nethttp.CostByContentLength(bytesPerToken)
}

// CostByContentLengthOr is [CostByContentLength] with another cost for a body of unknown length: unknown tokens, at
// least 1.
func CostByContentLengthOr(bytesPerToken, unknown int64) func(*http.Request) (int64, error) {
	return nethttp.CostByContentLengthOr(bytesPerToken, unknown)
}

// WithUnits sets what a request takes besides requests, such as tokens: see [core.Units]. A nil map takes nothing else. Of
// several limiters each takes the units that it counts. An error is answered as that of a [KeyFunc] is.
func WithUnits(units func(*http.Request) (core.Units, error)) Option {
	return func(c *nethttp.Config) { c.Units = units }
}

// WithSettle corrects what a request took when its response is over: settle returns what it really took. Units that it
// leaves out keep what was charged, and nil changes nothing. See [core.Result.Settle]. It is called once for each request
// that was allowed, also if the client has gone. A settlement that fails, because the store does not answer, is logged, and
// observers receive it as [core.OutcomeUnsettled]. Wrong units and a panic of settle are logged. Then what was charged
// stays, and the client sees nothing of it. It can't be used together with [WithRefund]: 0 requests are a refund.
//
// The response is over when the handler has returned or panicked, also a streamed one.
func WithSettle(settle func(r *http.Request, status int) core.Units) Option {
	return func(c *nethttp.Config) { c.Settle = settle }
}

// WithLimits sets the limits of a request, such as those of its user's plan. Nil means the limits of the policy. An
// error is answered as that of a [KeyFunc] is. See [core.Limiter.WithLimits].
func WithLimits(limits func(*http.Request) ([]core.Limit, error)) Option {
	return func(c *nethttp.Config) { c.Limits = limits }
}

// WithSkip lets a request pass if skip returns true. It is not counted, and its response has no header fields of the
// limit.
func WithSkip(skip func(*http.Request) bool) Option {
	return func(c *nethttp.Config) { c.Skip = skip }
}

// WithRefund returns a request's tokens if refund returns true for the status of its response. Use it to count failed
// logins only, or not to count errors of the service.
//
// The status that was written counts, even if the handler fails after it: an upstream that hangs up after a 200 counts
// as 200. A panic before anything is written counts as 500, a hijacked connection as 200.
func WithRefund(refund func(r *http.Request, status int) bool) Option {
	return func(c *nethttp.Config) { c.Refund = refund }
}

// OnDenied answers a denied request. It replaces 429 and the problem body: write the status, then the body. The
// header fields are already set. If denied writes nothing, as one that only logs, the default answer follows.
func OnDenied(denied func(http.ResponseWriter, *http.Request, core.Result)) Option {
	return func(c *nethttp.Config) { c.Denied = denied }
}

// OnError answers a request that has no decision. It replaces 400 ([core.ErrNoKey], [core.ErrBadKey]), 503
// ([core.ErrUnavailable], or the request's context has ended) and 500 (a key, cost or limits function failed). If it
// writes nothing, the default answer follows. Don't show err to clients.
func OnError(failed func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(c *nethttp.Config) { c.Failed = failed }
}
