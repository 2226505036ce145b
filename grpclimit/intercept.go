package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// unary is a [grpc.UnaryServerInterceptor].
func (i *interceptor) unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	s, ctx, first := stateOf(ctx)
	code := codes.Internal // also if the handler panics
	if first {
		defer func() { s.send(ctx, code) }()
	}
	c := &Call{FullMethod: info.FullMethod, Message: message, ctx: ctx, state: s}
	a := i.engine.Begin(c, asRequest(c))
	if a.Verdict != middleware.Allowed {
		err = i.refuse(c, &a)
		code = codeOf(err)
		return nil, err
	}
	if i.engine.WantsEnd(&a) {
		defer func() { i.engine.End(c, &a, int(code)) }()
	}
	answer, err = handler(ctx, message)
	code = codeOf(err)
	return answer, err
}

// stream is a [grpc.StreamServerInterceptor].
func (i *interceptor) stream(server any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	s, ctx, first := stateOf(ss.Context())
	code := codes.Internal // also if the handler panics
	if first {
		defer func() { s.send(ctx, code) }()
		ss = &fieldStream{ServerStream: ss, ctx: ctx, state: s}
	}
	c := &Call{FullMethod: info.FullMethod, Stream: true, ctx: ctx, state: s}
	if i.perMessage {
		m := i.messages(c, ss)
		defer func() { m.Stop(middleware.Code(code)) }()
		err := handler(server, m)
		if refused := m.Refusal(); refused != nil {
			err = refused // whatever the handler made of it
		}
		code = codeOf(err)
		return err
	}
	a := i.engine.Begin(c, asRequest(c))
	if a.Verdict != middleware.Allowed {
		err := i.refuse(c, &a)
		code = codeOf(err)
		return err
	}
	if i.engine.WantsEnd(&a) {
		defer func() { i.engine.End(c, &a, int(code)) }()
	}
	err := handler(server, ss)
	code = codeOf(err)
	return err
}

// fieldStream is a stream whose header has the fields of the limits. The first
// interceptor of a call makes it.
type fieldStream struct {
	grpc.ServerStream
	ctx   context.Context
	state *state
}

func (f *fieldStream) Context() context.Context { return f.ctx }

func (f *fieldStream) SendMsg(m any) error {
	f.state.sendHeader(f.ctx) // the first message sends the header
	return f.ServerStream.SendMsg(m)
}

func (f *fieldStream) SendHeader(md metadata.MD) error {
	f.state.sendHeader(f.ctx)
	return f.ServerStream.SendHeader(md)
}
