package connectlimit

import (
	"context"

	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// interceptor is a [connect.Interceptor].
type interceptor struct {
	engine *middleware.Engine[*Call]
	config
}

// WrapUnary decides unary calls.
func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (answer connect.AnyResponse, err error) {
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		s, ctx, first := stateOf(ctx, req.Header())
		failed := true // also if the handler panics
		if first {
			s.answer(ctx, req.Peer())
			defer func() { s.finish(failed) }()
		}
		c := &Call{Procedure: req.Spec().Procedure, StreamType: connect.StreamTypeUnary, Message: req.Any(), ctx: ctx, caller: req, state: s}
		a := i.engine.Begin(c, asRequest(c))
		if a.Verdict != middleware.Allowed {
			return nil, i.refuse(c, &a)
		}
		code := connect.CodeInternal
		if i.engine.WantsEnd(&a) {
			defer func() { i.engine.End(c, &a, int(code)) }()
		}
		answer, err = next(ctx, req)
		code, failed = codeOf(err), err != nil
		return answer, err
	}
}

// WrapStreamingClient leaves clients alone.
func (*interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler decides streams.
func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		s, ctx, first := stateOf(ctx, conn.RequestHeader())
		failed := true
		if first {
			s.protocol, s.response = conn.Peer().Protocol, conn
			defer func() { s.finish(failed) }()
			conn = &fieldConn{conn, s}
		}
		c := &Call{Procedure: conn.Spec().Procedure, StreamType: conn.Spec().StreamType, ctx: ctx, caller: handlerConn{conn}, state: s}
		code := connect.CodeInternal
		if i.perMessage {
			m := i.messages(c, conn)
			defer func() { m.Stop(middleware.Code(code)) }()
			err := next(m.ctx, m)
			if refused := m.Refusal(); refused != nil {
				err = refused // whatever the handler made of it
			}
			code, failed = codeOf(err), err != nil
			return err
		}
		a := i.engine.Begin(c, asRequest(c))
		if a.Verdict != middleware.Allowed {
			return i.refuse(c, &a)
		}
		if i.engine.WantsEnd(&a) {
			defer func() { i.engine.End(c, &a, int(code)) }()
		}
		err := next(ctx, conn)
		code, failed = codeOf(err), err != nil
		return err
	}
}

// fieldConn is a stream whose header has the fields of the limits. The first
// interceptor of a call makes it.
type fieldConn struct {
	connect.StreamingHandlerConn
	state *state
}

func (f *fieldConn) Send(m any) error {
	f.state.sendHeader() // the first message sends the header
	return f.StreamingHandlerConn.Send(m)
}
