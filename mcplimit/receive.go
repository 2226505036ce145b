package mcplimit

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// receiver decides the requests that a server receives.
type receiver struct {
	engine *middleware.Engine[*Call]
	config
}

// middleware is an [mcp.Middleware].
func (r *receiver) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if !r.limits(method) {
			return next(ctx, method, req)
		}
		decisions, ctx := middleware.DecisionsIn(ctx, req.GetSession()) // a session gets no context that has decisions of its own calls
		c := newCall(ctx, decisions, method, req)
		a := r.engine.Begin(c, asRequest(c))
		if a.Verdict != middleware.Allowed {
			return r.refuse(c, &a)
		}
		if !r.engine.WantsEnd(&a) {
			return next(ctx, method, req)
		}
		defer func() { r.engine.End(c, &a, 0) }() // functions find the answer in c, not in a status
		result, err := next(ctx, method, req)
		if c.Err = err; err == nil {
			c.Result = result
		}
		return result, err
	}
}
