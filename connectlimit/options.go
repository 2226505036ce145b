package connectlimit

import (
	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Option is an option of [New] and [NewTogether].
type Option func(*config)

type config struct {
	middleware.Options[*Call]
	denied     func(*Call, core.Result) error
	failed     func(*Call, error) error
	perMessage bool
	wait       bool
}

// configured returns what options set.
func configured(options []Option) (o config) {
	for _, option := range options {
		if option != nil {
			option(&o)
		}
	}
	return o
}

// WithCost sets how many tokens a call takes of the limits that count requests. The default is 1; 0 takes none. An error is answered
// as that of a [KeyFunc] is, except that [core.ErrUnknownCost] costs the whole Capacity. If no limit of the policy counts requests, New
// panics.
func WithCost(cost func(*Call) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// WithUnits sets what a call takes besides requests, such as bytes: see [core.Units]. A nil map takes nothing else. Of several limiters
// each takes the units that it counts. An error is answered as that of a [KeyFunc] is.
func WithUnits(units func(*Call) (core.Units, error)) Option {
	return func(o *config) { o.Units = units }
}

// WithSettle corrects what a call took when its handler has returned: settle returns what it really took. Units that it leaves out keep
// what was charged, and nil changes nothing. See [core.Result.Settle]. It is called once for each call that was allowed, also if the
// client has gone. The code is 0 if the handler succeeded, and connect.CodeInternal if it panicked. A settlement that fails is logged. It
// can't be used together with [WithRefund]: 0 requests are a refund.
func WithSettle(settle func(c *Call, code connect.Code) core.Units) Option {
	return func(o *config) {
		o.Settle = nil
		if settle != nil {
			o.Settle = func(c *Call, code int) core.Units { return settle(c, connect.Code(code)) }
		}
	}
}

// WithLimits sets the limits of a call, such as those of its user's plan. Nil means the limits of the policy. An error is answered as
// that of a [KeyFunc] is. See [core.Limiter.WithLimits].
func WithLimits(limits func(*Call) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithSkip lets a call pass if skip returns true. It is not counted, and has no fields of the limit. WithSkip(HealthAndReflection) lets
// health checks and reflection pass.
func WithSkip(skip func(*Call) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund returns a call's tokens if refund returns true for the code of its answer: 0 if it succeeded. Use it to count failed logins
// only, or not to count errors of the service. A panic of the handler counts as connect.CodeInternal.
func WithRefund(refund func(c *Call, code connect.Code) bool) Option {
	return func(o *config) {
		o.Refund = nil
		if refund != nil {
			o.Refund = func(c *Call, code int) bool { return refund(c, connect.Code(code)) }
		}
	}
}

// OnDenied answers a denied call with the error that it returns. If it returns nil, the default answer follows.
func OnDenied(denied func(c *Call, res core.Result) error) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a call that has no decision with the error that it returns. If it returns nil, the default answer follows. Don't show
// err to clients.
func OnError(failed func(c *Call, err error) error) Option {
	return func(o *config) { o.failed = failed }
}

// PerMessage decides each message that a stream receives, instead of the opening of the stream. The functions of the app find it in the
// Call's Message. A denied message ends the stream with the denial: Receive returns it, and the handler's context ends. A message is
// over, for settlement, refunds and slots, when the handler receives the next one, or returns. To limit openings too, add a second
// interceptor. Unary calls are decided as without it.
func PerMessage() Option {
	return func(o *config) { o.perMessage, o.wait = true, false }
}

// PerMessageWait is [PerMessage], except that a denied message waits in the server until it has its tokens, and with it all that the
// client sends after it: flow control slows the client down. A message that could never pass, or only after the call's deadline, ends
// the stream.
func PerMessageWait() Option {
	return func(o *config) { o.perMessage, o.wait = true, true }
}
