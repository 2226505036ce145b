package connectlimit

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Allow takes a token of key's bucket from within a handler, for keys that only
// the handler knows, such as the tenant in a message. ctx is the handler's. If
// there is no token, or no decision, Allow returns the error that an
// interceptor of [New] answers with: the handler returns it as it is. The
// Result can give the token back: see [core.Result.Undo]. If limiter has slots,
// defer its Release. [FromContext] returns the Result too, but only behind an
// interceptor of this package.
//
// If the key has the client's address in it, take that from [ClientIP].
//
// The fields of the limits go where those of an interceptor go. In streams,
// where that is too late, use [core.Limiter.Allow]. Without an interceptor of
// this package, call Allow from one goroutine at a time, because it writes to
// the response.
//
// If limiter counts no requests the error is internal. Allow panics if limiter
// is nil.
func Allow(ctx context.Context, limiter *core.Limiter, key string) (core.Result, error) {
	i := &interceptor{engine: middleware.InHandler(limiter, key, protocol)}
	by := callerOf(ctx)
	s, ctx, first := stateOf(ctx, by.Header())
	if first && by.CallInfo != nil {
		s.protocol, s.response = by.Peer().Protocol, by
	}
	c := handled(ctx)
	c.state = s
	a := i.engine.Begin(c, asRequest(c))
	var err error
	if a.Verdict != middleware.Allowed {
		err = i.refuse(c, &a)
	}
	if first {
		s.finish(err != nil)
	}
	return a.Result(), err
}

// handled returns the call that a handler with the context ctx handles, without
// its state.
func handled(ctx context.Context) *Call {
	by := callerOf(ctx)
	return &Call{Procedure: by.procedure(), ctx: ctx, caller: by}
}

func callerOf(ctx context.Context) (by infoCaller) {
	by.CallInfo, _ = connect.CallInfoForHandlerContext(ctx)
	return by
}

// infoCaller is who calls, as contexts of handlers know it. It is empty in
// tests of apps without a server.
type infoCaller struct{ connect.CallInfo }

func (i infoCaller) Header() http.Header {
	if i.CallInfo == nil {
		return nil
	}
	return i.RequestHeader()
}

func (i infoCaller) Peer() connect.Peer {
	if i.CallInfo == nil {
		return connect.Peer{}
	}
	return i.CallInfo.Peer()
}

func (i infoCaller) procedure() string {
	if i.CallInfo == nil {
		return ""
	}
	return i.Spec().Procedure
}
