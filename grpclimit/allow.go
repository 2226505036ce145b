package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Allow takes a token of key's bucket from within a handler, for keys that only the handler knows, such as the tenant in a message.
// ctx is the handler's. If there is no token, or no decision, Allow returns the error that [Unary] answers with: the handler returns it
// as it is. The Result can give the token back: see [core.Result.Undo]. If limiter has slots, defer its Release. [FromContext] returns
// the Result too, but only behind an interceptor of this package.
//
// The fields of the limits become header metadata, or trailers, as those of an interceptor do. In streams, where that is too late, use
// [core.Limiter.Allow]. If limiter counts no requests the error is Internal. Allow panics if limiter is nil.
func Allow(ctx context.Context, limiter *core.Limiter, key string) (core.Result, error) {
	i := &interceptor{engine: middleware.InHandler(limiter, key, protocol)}
	s, ctx, first := stateOf(ctx)
	method, _ := grpc.Method(ctx)
	c := &Call{FullMethod: method, ctx: ctx, state: s}
	a := i.engine.Begin(c, asRequest(c))
	var err error
	if a.Outcome != middleware.Allowed {
		err = i.refuse(c, &a)
	}
	if first {
		s.send(ctx, err != nil)
	}
	return a.Result, err
}
