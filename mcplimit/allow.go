package mcplimit

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Allow takes a token of key's bucket from within a tool or another handler,
// for keys that only it knows, such as an account in the arguments. ctx is the
// handler's. If there is no token, or no decision, Allow returns the JSON-RPC
// error that middleware of [New] answers with: the tool returns it as it is.
// The Result can give the token back: see [core.Result.Undo]. If limiter has
// slots, defer its Release. [FromContext] returns the Result too, but only
// behind middleware of this package.
//
// If limiter counts no requests the error is an internal error. Allow panics if
// limiter is nil.
func Allow(ctx context.Context, limiter *core.Limiter, key string) (core.Result, error) {
	r := receiver{engine: middleware.InHandler(limiter, key, protocol)}
	decisions := middleware.DecisionsOf(ctx)
	c := &Call{Method: callTool, ctx: ctx, decisions: decisions}
	a := r.engine.Begin(c, &middleware.Inbound{Procedure: callTool, Ctx: ctx, Decisions: decisions})
	if a.Verdict != middleware.Allowed {
		_, err := r.refuse(c, &a)
		return a.Result(), err
	}
	return a.Result(), nil
}
