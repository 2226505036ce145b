package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// messages is a stream each of whose received messages is decided.
type messages struct {
	grpc.ServerStream
	middleware.Messages[*Call]
	ctx context.Context
}

// messages returns the stream for the handler of c.
func (i *interceptor) messages(c *Call, ss grpc.ServerStream) *messages {
	ctx, cancel := context.WithCancel(c.ctx)
	return &messages{ss, middleware.Messages[*Call]{
		Engine: i.engine, Wait: i.wait, Refuse: i.refuse, Decisions: &c.state.decision, Cancel: cancel,
		Call: func(message any) (*Call, middleware.Request) {
			c := &Call{FullMethod: c.FullMethod, Stream: true, Message: message, ctx: ctx, state: c.state}
			return c, asRequest(c)
		},
	}, ctx}
}

func (m *messages) Context() context.Context { return m.ctx }

// RecvMsg receives a message that has paid.
func (m *messages) RecvMsg(into any) error {
	return m.Receive(func() error { return m.ServerStream.RecvMsg(into) }, into)
}
