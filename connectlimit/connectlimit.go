// Package connectlimit limits calls of Connect handlers with token buckets,
// whichever protocol their clients speak: Connect, gRPC or gRPC-Web.
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	limits := connectlimit.New(limiter, connectlimit.ByHeader("X-Api-Key"))
//	mux.Handle(filesv1connect.NewFilesHandler(files, connect.WithInterceptors(limits)))
//
// Keys are those of package grpclimit and of the adapters for HTTP, so a
// limiter that they share limits a client in all of them together: [ByPeer] is
// their ByIP.
//
// # What clients get
//
// A call that does not pass fails with
//
//   - resource_exhausted if it is denied, with the details RetryInfo and
//     QuotaFailure, which names the limits that lack tokens,
//   - invalid_argument if it has no key,
//   - unavailable, with RetryInfo, if the store can't answer and the policy
//     fails closed,
//   - canceled or deadline_exceeded if its context has ended,
//   - internal if a function of the app failed. The error is logged, and
//     clients don't see it.
//
// [OnDenied] and [OnError] replace these answers.
//
// The policy chooses the fields of the limits. A denial also has Retry-After,
// in whole seconds, and so has unavailable. The fields are headers, except that
// they are trailers
//
//   - of a stream whose first message has been sent: a message that is denied
//     then,
//   - of a call that fails, if the client speaks gRPC or gRPC-Web.
//
// Connect's Go client shows both in the metadata of the error. Of the messages
// of a stream only a denied one has fields.
//
// # Retries
//
// gRPC clients don't retry a denial by themselves, even if their service config
// says so: they retry only answers without headers, and a Connect handler
// always sends headers before trailers. So there is no grpc-retry-pushback-ms,
// which they would ignore. Connect's clients have no retries. Apps read
// RetryInfo or Retry-After. Clients of a grpc-go server with package grpclimit
// do retry.
//
// See [docs/rpc.md].
//
// [docs/rpc.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/rpc.md
package connectlimit

import (
	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// New returns an interceptor that lets a unary call pass, or a stream open, if
// limiter has tokens for its key. With [PerMessage] each message that a stream
// receives takes the tokens instead. It limits handlers only: calls of clients
// pass untouched.
//
// Connect has received the message of a unary call when its interceptors run:
// connect.WithReadMaxBytes limits the size. A message that can't be decoded is
// answered without a decision.
//
// Slots ([core.InFlight]) come back when the handler has returned, also by a
// panic. Calls that take longer than MaxHold keep theirs.
//
// New panics with all mistakes in its arguments: a nil limiter, a nil key, and
// a key function that was made from bad arguments.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) connect.Interceptor {
	o := configured(options)
	return &interceptor{middleware.New(limiter, key, o.Options, protocol), o}
}

// NewTogether returns an interceptor that lets a call pass if all limiters have
// tokens for their keys, and takes nothing from any if not: a user and the
// organisation, for instance. See [core.AllowTogether]. Everything else is as
// with [New], and [WithPlan] can't be used.
func NewTogether(rules []Rule, options ...Option) connect.Interceptor {
	o := configured(options)
	return &interceptor{middleware.NewTogether(rules, o.Options, protocol), o}
}
