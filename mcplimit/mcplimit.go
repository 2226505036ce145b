// Package mcplimit limits requests of a tool server (Model Context Protocol)
// with token buckets, for the SDK github.com/modelcontextprotocol/go-sdk:
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "tools", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	client := mcplimit.FirstOf(mcplimit.ByTokenSubject(), mcplimit.BySession())
//	server.AddReceivingMiddleware(mcplimit.New(limiter, mcplimit.Join(client, mcplimit.ByTool("search", "fetch"))))
//
// Calls of tools are limited, and with [Methods] or [AllMethods] other requests
// too. For github.com/mark3labs/mcp-go see the module mcplimit/mcpgo.
//
// # What clients get
//
// A request that does not pass is answered with a JSON-RPC error. Its code is
//
//   - [CodeLimited] if it is denied,
//   - -32602, invalid params, if it has no key,
//   - [CodeUnavailable] if the store can't answer and the policy fails closed,
//   - -32603, internal error, if a function of the app failed. The error is
//     logged, and clients don't see it.
//
// The error's data says when to retry, and which limits lack tokens:
//
//	{"retryAfter": 1.5, "limit": "burst", "limits": ["burst", "daily"]}
//
// retryAfter is in seconds, rounded up to milliseconds. It is missing if no
// wait is long enough. limit is the first of the limits, and limits is there if
// there are several. The data of [CodeUnavailable] has retryAfter alone.
//
// With [RefuseAsToolResult] a call of a tool is refused by a result with
// isError instead, whose text a language model can read. [OnDenied] and
// [OnError] replace these answers.
//
// Answers have no fields of the limits, whatever the policy's Headers, because
// results have no header. A tool that wants to tell how many calls are left
// reads [FromContext].
//
// # Who is limited
//
// Where clients are authenticated, [ByTokenSubject] limits users, whatever
// their sessions. Version 2026-07-28 of the protocol has no sessions over HTTP,
// so [BySession] alone refuses each call of its clients for lack of a key. It
// limits stdio, and older clients: each can open another session, and gets a
// full bucket. FirstOf(ByTokenSubject(), BySession()) suits all of them but
// clients of HTTP without a token: limit those by address in front of the HTTP
// handler, and what opens sessions too: httplimit.
//
// See [docs/rpc.md].
//
// [docs/rpc.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/rpc.md
package mcplimit

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Codes of the errors that refuse a request. They are outside the range that
// JSON-RPC and the Model Context Protocol reserve, so no version of the
// protocol gives them another meaning.
const (
	CodeLimited     = middleware.JSONLimited     // 429, as in HTTP: too few tokens are left
	CodeUnavailable = middleware.JSONUnavailable // 503, as in HTTP: the store can't answer, and the policy fails closed
)

// New returns receiving middleware of a server that lets a request pass if
// limiter has tokens for its key.
//
// Slots ([core.InFlight]) come back when the handler has returned, also by a
// panic. A request that its client has cancelled keeps its slot until then, so
// handlers should end when their context does. For streamable HTTP the SDK does
// not end it when the connection is cut or the session is deleted: such a
// handler keeps its slot until it has done its work. Requests that take longer
// than MaxHold keep their slots.
//
// New panics with the mistakes in its arguments: a nil limiter, a nil key, a
// key function that was made from bad arguments, and [Methods] without a name.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) mcp.Middleware {
	o := configured(options)
	o.check()
	return (&receiver{middleware.New(limiter, key, o.Options, protocol), o}).middleware
}

// NewTogether returns middleware that lets a request pass if all limiters have
// tokens for their keys, and takes nothing from any if not: a user and the
// organisation, for instance. See [core.AllowTogether]. Everything else is as
// with [New], and [WithPlan] can't be used.
func NewTogether(rules []Rule, options ...Option) mcp.Middleware {
	o := configured(options)
	o.check()
	return (&receiver{middleware.NewTogether(rules, o.Options, protocol), o}).middleware
}
