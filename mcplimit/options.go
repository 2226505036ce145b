package mcplimit

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Option is an option of [New].
type Option func(*config)

type config struct {
	middleware.Options[*Call]
	methods  func(method string) bool // those that are limited
	denied   func(*Call, core.Result) (mcp.Result, error)
	failed   func(*Call, error) (mcp.Result, error)
	asResult bool
	mistake  error
}

// callTool is the method that is limited by default.
const callTool = "tools/call"

// configured returns what options set.
func configured(options []Option) config {
	o := config{methods: func(method string) bool { return method == callTool }}
	for _, option := range options {
		if option != nil {
			option(&o)
		}
	}
	if o.mistake != nil {
		middleware.RefuseArguments(o.mistake)
	}
	return o
}

// Methods has the middleware limit these methods, such as "tools/list" and "resources/read", instead of calls of tools: name
// "tools/call" to limit these too. Methods of your own and notifications can be named. A notification that does not pass is dropped, and
// its sender isn't told. [ByTool] has no key for methods other than tools/call: use FirstOf(ByTool(), ByMethod()).
func Methods(names ...string) Option {
	limited := make(map[string]bool, len(names))
	for _, name := range names {
		limited[name] = true
	}
	return func(o *config) {
		o.methods = func(method string) bool { return limited[method] }
		if len(names) == 0 || limited[""] {
			o.mistake = &core.ConfigError{Field: "Methods", Value: strings.Join(names, ", "), Reason: `must be names of methods, such as "tools/call"; AllMethods limits all requests`}
		}
	}
}

// AllMethods has the middleware limit all requests of clients, together if the key is the same. Those that only open a connection or
// keep it alive pass: initialize, server/discover, ping, and notifications. A subscription (subscriptions/listen) is a request that holds
// its slot until the client ends it.
func AllMethods() Option {
	return func(o *config) {
		o.methods = func(method string) bool {
			switch method {
			case "initialize", "server/discover", "ping":
				return false
			}
			return !strings.HasPrefix(method, "notifications/")
		}
	}
}

// WithCost sets how many tokens a request takes of the limits that count requests. The default is 1; 0 takes none. An error is answered
// as that of a [KeyFunc] is, except that [core.ErrUnknownCost] costs the whole Capacity. If no limit of the policy counts requests, New
// panics.
func WithCost(cost func(*Call) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// WithUnits sets what a request takes besides requests, such as tokens of a language model: see [core.Units]. A nil map takes nothing
// else. Of several limiters each takes the units that it counts. An error is answered as that of a [KeyFunc] is.
func WithUnits(units func(*Call) (core.Units, error)) Option {
	return func(o *config) { o.Units = units }
}

// WithSettle corrects what a request took when its handler has returned: settle returns what it really took, such as the tokens of the
// text in the Call's Result. Units that it leaves out keep what was charged, and nil changes nothing. See [core.Result.Settle]. It is
// called once for each request that was allowed, also if the client has gone or the handler panicked: then the Call's Err is not nil. A
// settlement that fails is logged. It can't be used together with [WithRefund]: 0 requests are a refund.
func WithSettle(settle func(*Call) core.Units) Option {
	return func(o *config) {
		o.Settle = nil
		if settle != nil {
			o.Settle = func(c *Call, _ int) core.Units { return settle(c) }
		}
	}
}

// WithLimits sets the limits of a request, such as those of its user's plan. Nil means the limits of the policy. An error is answered as
// that of a [KeyFunc] is. See [core.Limiter.WithLimits].
func WithLimits(limits func(*Call) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithSkip lets a request pass if skip returns true. It is not counted.
func WithSkip(skip func(*Call) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund returns a request's tokens if refund returns true for the answer, which the Call has. WithRefund((*Call).Failed) counts only
// what succeeds.
func WithRefund(refund func(*Call) bool) Option {
	return func(o *config) {
		o.Refund = nil
		if refund != nil {
			o.Refund = func(c *Call, _ int) bool { return refund(c) }
		}
	}
}

// RefuseAsToolResult refuses calls of tools by a result with isError, instead of a JSON-RPC error. Clients give it to the language
// model, which reads in it which limit refused the call and when to try again. Other methods are refused as before.
func RefuseAsToolResult() Option {
	return func(o *config) { o.asResult = true }
}

// OnDenied answers a denied request with the result or the error that it returns. If both are nil, the default answer follows. A result
// must be of the type of the Call's Method: *mcp.CallToolResult for tools/call.
func OnDenied(denied func(c *Call, res core.Result) (mcp.Result, error)) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a request that has no decision, as [OnDenied] does a denied one. Don't show err to clients.
func OnError(failed func(c *Call, err error) (mcp.Result, error)) Option {
	return func(o *config) { o.failed = failed }
}
