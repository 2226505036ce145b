package mcpgo

import (
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Option is an option of [New].
type Option func(*config)

type config struct {
	middleware.Options[*Call]
	denied func(*Call, core.Result) (*mcp.CallToolResult, error)
	failed func(*Call, error) (*mcp.CallToolResult, error)
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

// WithCost sets how many tokens a call takes of the limits that count requests. The default is 1; 0 takes none. An error is answered as
// that of a [KeyFunc] is, except that [core.ErrUnknownCost] costs the whole Capacity. If no limit of the policy counts requests, New
// panics.
func WithCost(cost func(*Call) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// WithUnits sets what a call takes besides requests, such as tokens of a language model: see [core.Units]. A nil map takes nothing else. Of
// several limiters each takes the units that it counts. An error is answered as that of a [KeyFunc] is.
func WithUnits(units func(*Call) (core.Units, error)) Option {
	return func(o *config) { o.Units = units }
}

// WithSettle corrects what a call took when its tool has returned: settle returns what it really took, such as the tokens of the text in
// the Call's Result. Units that it leaves out keep what was charged, and nil changes nothing. See [core.Result.Settle]. It is called once
// for each call that was allowed, also if the client has gone or the tool panicked: then the Call's Err is not nil. A settlement that
// fails is logged. It can't be used together with [WithRefund]: 0 requests are a refund.
func WithSettle(settle func(*Call) core.Units) Option {
	return func(o *config) {
		o.Settle = nil
		if settle != nil {
			o.Settle = func(c *Call, _ int) core.Units { return settle(c) }
		}
	}
}

// WithLimits sets the limits of a call, such as those of its user's plan. Nil means the limits of the policy. An error is answered as that
// of a [KeyFunc] is. See [core.Limiter.WithLimits].
func WithLimits(limits func(*Call) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithSkip lets a call pass if skip returns true. It is not counted.
func WithSkip(skip func(*Call) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund returns a call's tokens if refund returns true for the answer, which the Call has. WithRefund((*Call).Failed) counts only what
// succeeds.
func WithRefund(refund func(*Call) bool) Option {
	return func(o *config) {
		o.Refund = nil
		if refund != nil {
			o.Refund = func(c *Call, _ int) bool { return refund(c) }
		}
	}
}

// OnDenied answers a denied call with the result or the error that it returns. If both are nil, the default answer follows. Clients see the
// text of an error.
func OnDenied(denied func(c *Call, res core.Result) (*mcp.CallToolResult, error)) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a call that has no decision, as [OnDenied] does a denied one. Don't show err to clients.
func OnError(failed func(c *Call, err error) (*mcp.CallToolResult, error)) Option {
	return func(o *config) { o.failed = failed }
}
