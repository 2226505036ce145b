package connectlimit

import (
	"context"

	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// messages is a stream each of whose received messages is decided.
type messages struct {
	connect.StreamingHandlerConn
	middleware.Messages[*Call]
	ctx      context.Context
	received bool
}

// messages returns the stream for the handler of c.
func (i *interceptor) messages(c *Call, conn connect.StreamingHandlerConn) *messages {
	ctx, cancel := context.WithCancel(c.ctx)
	return &messages{StreamingHandlerConn: conn, ctx: ctx, Messages: middleware.Messages[*Call]{
		Engine: i.engine, Wait: i.wait, Refuse: i.refuse, Decisions: &c.state.decision, Cancel: cancel,
		Call: func(message any) (*Call, middleware.Request) {
			c := *c
			c.Message, c.ctx = message, ctx
			return &c, asRequest(&c)
		},
	}}
}

// Receive receives a message that has paid.
func (m *messages) Receive(into any) error {
	if m.received && m.Spec().StreamType == connect.StreamTypeServer {
		return m.StreamingHandlerConn.Receive(into) // Connect looks for the end of the request: its one message is not over yet
	}
	m.received = true
	return m.Messages.Receive(func() error { return m.StreamingHandlerConn.Receive(into) }, into)
}
