// Package grpclimit limits calls of a gRPC server with token buckets:
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpclimit.Unary(limiter, grpclimit.ByMetadata("x-api-key"))),
//		grpc.ChainStreamInterceptor(grpclimit.Stream(limiter, grpclimit.ByMetadata("x-api-key"))),
//	)
//
// Keys are those of the adapters for HTTP, so a limiter that both use limits a
// client in both together: [ByPeer] is their ByIP, and [ByMetadata] their
// ByHeader.
//
// # What clients get
//
// A call that does not pass fails with
//
//   - ResourceExhausted if it is denied, with the details RetryInfo and
//     QuotaFailure, which names the limits that lack tokens,
//   - InvalidArgument if it has no key,
//   - Unavailable, with RetryInfo, if the store can't answer and the policy
//     fails closed,
//   - Canceled or DeadlineExceeded if its context has ended,
//   - Internal if a function of the app failed. The error is logged, and
//     clients don't see it.
//
// [OnDenied] and [OnError] replace these answers.
//
// The policy chooses the fields of the limits, without Cache-Control. Their
// names are in lower case. They are header metadata of a call that succeeds,
// and trailers of one that fails, because gRPC clients retry only failures
// without header metadata. They are trailers too if the handler has sent the
// header itself, by grpc.SendHeader.
//
// A denial has the trailer grpc-retry-pushback-ms besides. A client whose
// service config retries RESOURCE_EXHAUSTED waits for that long before it tries
// again. If the call's deadline comes first, or no wait is long enough, the
// trailer says not to retry.
//
// See [docs/rpc.md].
//
// [docs/rpc.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/rpc.md
package grpclimit

import (
	"google.golang.org/grpc"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Unary returns an interceptor that lets a unary call pass if limiter has
// tokens for its key.
//
// Slots ([core.InFlight]) come back when the handler has returned, also by a
// panic. Calls that take longer than MaxHold keep theirs.
//
// Unary panics with all mistakes in its arguments: a nil limiter, a nil key,
// and a key function that was made from bad arguments.
func Unary(limiter *core.Limiter, key KeyFunc, options ...Option) grpc.UnaryServerInterceptor {
	return single(limiter, key, options).unary
}

// Stream returns an interceptor that lets a stream open if limiter has tokens
// for its key. With [PerMessage] each message that the server receives takes
// the tokens instead. Everything else is as with [Unary]: a stream is over when
// its handler has returned.
func Stream(limiter *core.Limiter, key KeyFunc, options ...Option) grpc.StreamServerInterceptor {
	return single(limiter, key, options).stream
}

// UnaryTogether returns an interceptor that lets a unary call pass if all
// limiters have tokens for their keys, and takes nothing from any if not: a
// user and the organisation, for instance. See [core.AllowTogether]. Everything
// else is as with [Unary], and [WithPlan] can't be used.
func UnaryTogether(rules []Rule, options ...Option) grpc.UnaryServerInterceptor {
	return together(rules, options).unary
}

// StreamTogether is [UnaryTogether] for streams.
func StreamTogether(rules []Rule, options ...Option) grpc.StreamServerInterceptor {
	return together(rules, options).stream
}

// interceptor is what interceptors share, whether calls are unary or streams.
type interceptor struct {
	engine *middleware.Engine[*Call]
	config
}

func single(limiter *core.Limiter, key KeyFunc, options []Option) *interceptor {
	o := configured(options)
	return &interceptor{middleware.New(limiter, key, o.Options, protocol), o}
}

func together(rules []Rule, options []Option) *interceptor {
	o := configured(options)
	return &interceptor{middleware.NewTogether(rules, o.Options, protocol), o}
}
