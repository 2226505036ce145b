package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Allow takes a token of key's bucket from within a handler, for keys that only
// the handler knows, such as the tenant in a message. ctx is the handler's. If
// there is no token, or no decision, Allow returns the error that [Unary]
// answers with: the handler returns it as it is. The Result can give the token
// back: see [core.Result.Undo]. If limiter has slots, defer its Release.
// [FromContext] returns the Result too, but only behind an interceptor of this
// package.
//
// If the key has the client's address in it, take that from [ClientIP].
//
// The fields of the limits become header metadata, or trailers, as those of an
// interceptor do. In streams, where that is too late, use [core.Limiter.Allow].
// If limiter counts no requests the error is Internal. Allow panics if limiter
// is nil.
func Allow(ctx context.Context, limiter *core.Limiter, key string) (core.Result, error) {
	i := &interceptor{engine: middleware.InHandler(limiter, key, protocol)}
	s, ctx, first := stateOf(ctx)
	c := handled(ctx)
	c.state = s
	a := i.engine.Begin(c, asRequest(c))
	var err error
	if a.Verdict != middleware.Allowed {
		err = i.refuse(c, &a)
	}
	if first {
		s.send(ctx, codeOf(err))
	}
	return a.Result(), err
}

// handled returns the call that a handler with the context ctx handles, without
// its state.
func handled(ctx context.Context) *Call {
	method, _ := grpc.Method(ctx)
	return &Call{FullMethod: method, ctx: ctx}
}
