package grpclimit

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Call is a call that a limiter decides, as functions of the app see it.
type Call struct {
	FullMethod string // such as /files.v1.Files/Read
	Stream     bool   // whether the call is a stream, of the client or of the server
	Message    any    // the request of a unary call, or with PerMessage the message; nil when a stream opens

	ctx   context.Context
	state *state
	as    request // has no allocation of its own
}

// Context returns the call's context, with its metadata and what earlier
// interceptors left in it.
func (c *Call) Context() context.Context { return c.ctx }

// ofMessage reports whether a message of an open stream is decided.
func (c *Call) ofMessage() bool { return c.Stream && c.Message != nil }

// request is a Call as the engine and extractors of HTTP read it, with metadata
// as its header fields.
type request struct {
	middleware.Procedure
	call *Call
}

func asRequest(c *Call) adapter.Request {
	c.as = request{middleware.Procedure(c.FullMethod), c}
	return &c.as
}

func (x *request) Context() context.Context           { return x.call.ctx }
func (x *request) Value(key any) any                  { return x.call.ctx.Value(key) }
func (x *request) Decision() *middleware.Decision     { return x.call.state.decision.Load() }
func (x *request) SetDecision(d *middleware.Decision) { x.call.state.decision.Store(d) }
func (x *request) Header(name string) []string {
	return metadata.ValueFromIncomingContext(x.call.ctx, name)
}

func (x *request) RemoteAddr() string {
	if p, ok := peer.FromContext(x.call.ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

func (x *request) LocalAddr() net.Addr {
	if p, ok := peer.FromContext(x.call.ctx); ok {
		return p.LocalAddr
	}
	return nil
}

// RemoteIP returns the peer's address from the connection itself.
func (x *request) RemoteIP() netip.Addr {
	if p, ok := peer.FromContext(x.call.ctx); ok {
		if tcp, ok := p.Addr.(*net.TCPAddr); ok {
			return tcp.AddrPort().Addr()
		}
	}
	return netip.Addr{}
}

// Response returns where the fields of the limits go. Messages of an open
// stream that pass have none.
func (x *request) Response() core.HeaderWriter {
	if x.call.ofMessage() {
		return nil
	}
	return x.call.state
}
