// Package mcpgo limits calls of tools of a server on
// github.com/mark3labs/mcp-go with token buckets:
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "tools", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	client := mcpgo.FirstOf(mcpgo.ByContextValue(userKey{}), mcpgo.BySession()) // the user that an HTTPContextFunc left in the context
//	server.NewMCPServer("demo", "v1", server.WithToolHandlerMiddleware(mcpgo.New(limiter, mcpgo.Join(client, mcpgo.ByTool("search")))))
//
// It is to mcp-go what package mcplimit is to the SDK
// github.com/modelcontextprotocol/go-sdk, with less, because middleware of
// mcp-go wraps the handlers of tools alone:
//
//   - The library answers every error of a handler with the code of an internal
//     error, without data. So a call that does not pass gets a result with
//     isError, whose text says which limit refused it and when to try again.
//     Language models can read it.
//   - Requests other than calls of tools are not limited, and neither are tools
//     of AddTaskTool.
//   - There is no TokenInfo: use [ByContextValue], with what an HTTPContextFunc
//     left in the context.
//
// Calls of unknown tools, and those whose arguments don't match the schema,
// fail before they are counted. A tool that asks the client for more input is
// called again with it, and pays again.
//
// See [docs/rpc.md].
//
// [docs/rpc.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/rpc.md
package mcpgo

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// New returns middleware that lets a call of a tool pass if limiter has tokens
// for its key.
//
// Slots ([core.InFlight]) come back when the tool has returned, also by a
// panic. A call that its client has cancelled keeps its slot until then. Calls
// that take longer than MaxHold keep theirs.
//
// New panics with all mistakes in its arguments: a nil limiter, a nil key, and
// a key function that was made from bad arguments.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) server.ToolHandlerMiddleware {
	o := configured(options)
	return (&limit{middleware.New(limiter, key, o.Options, protocol), o}).middleware
}

// NewTogether returns middleware that lets a call pass if all limiters have
// tokens for their keys, and takes nothing from any if not. See
// [core.AllowTogether]. Everything else is as with [New], and [WithPlan]
// can't be used.
func NewTogether(rules []Rule, options ...Option) server.ToolHandlerMiddleware {
	o := configured(options)
	return (&limit{middleware.NewTogether(rules, o.Options, protocol), o}).middleware
}

// protocol is what mcp-go knows of errors: nothing, since clients see the text
// of each.
var protocol = middleware.Protocol[*Call]{
	Status: func(c *Call, cause middleware.Cause, _ error) int { return cause.Refusal(c.ctx).JSONCode() },
}

// errPanicked is the Err of a call whose tool did not return.
var errPanicked = errors.New("the tool panicked")

// limit decides the calls of tools.
type limit struct {
	engine *middleware.Engine[*Call]
	config
}

// middleware is a [server.ToolHandlerMiddleware].
func (l *limit) middleware(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		decisions, ctx := middleware.DecisionsIn(ctx, identityOf(ctx, request.Params.Name))
		c := &Call{Tool: request.Params.Name, Request: request, Err: errPanicked, ctx: ctx, decisions: decisions}
		a := l.engine.Begin(c, asRequest(c))
		if a.Verdict != middleware.Allowed {
			return l.refuse(c, &a)
		}
		if !l.engine.WantsEnd(&a) {
			return next(ctx, request)
		}
		defer func() { l.engine.End(c, &a, 0) }() // functions find the answer in c, not in a status
		result, err := next(ctx, request)
		if c.Err = err; err == nil {
			c.Result = result
		}
		return result, err
	}
}

// refuse returns the answer to a call that does not pass.
func (l *limit) refuse(c *Call, a *middleware.Admission) (*mcp.CallToolResult, error) {
	switch {
	case a.Verdict == middleware.Denied:
		if l.denied != nil {
			if result, err := l.denied(c, a.Result()); result != nil || err != nil {
				return result, err
			}
		}
	case l.failed != nil:
		if result, err := l.failed(c, a.Err); result != nil || err != nil {
			return result, err
		}
	}
	refusal := a.Refusal(c.ctx)
	return mcp.NewToolResultError(refusal.Sentence()), nil
}
