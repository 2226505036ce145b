package mcpgo

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Allow takes a token of key's bucket from within a tool, for keys that only
// the tool knows, such as an account in its arguments. ctx is the tool's. If
// there is no token, or no decision, refusal is the result that middleware of
// [New] answers with, and the tool returns it: otherwise it is nil. The Result
// can give the token back: see [core.Result.Undo]. If limiter has slots, defer
// its Release. [FromContext] returns the Result too, but only behind middleware
// of this package.
//
// If limiter counts no requests the call is refused. Allow panics if limiter is
// nil.
func Allow(ctx context.Context, limiter *core.Limiter, key string) (res core.Result, refusal *mcp.CallToolResult) {
	l := limit{engine: middleware.InHandler(limiter, key, protocol)}
	decisions := middleware.DecisionsOf(ctx)
	c := &Call{ctx: ctx, decisions: decisions}
	a := l.engine.Begin(c, asRequest(c))
	if a.Verdict != middleware.Allowed {
		refusal, _ = l.refuse(c, &a) // without OnDenied and OnError there is no error
	}
	return a.Result(), refusal
}
