package grpclimit

import (
	"context"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// Call is a call that a limiter decides, as functions of the app see it.
type Call struct {
	FullMethod string // such as /files.v1.Files/Read
	Stream     bool   // whether the call is a stream, of the client or of the server
	Message    any    // the request of a unary call, or with PerMessage the message; nil when a stream opens

	ctx   context.Context
	state *state
}

// Context returns the call's context, with its metadata and what earlier interceptors left in it.
func (c *Call) Context() context.Context { return c.ctx }

// request is a Call as the engine and extractors of HTTP read it: a gRPC call is a POST of HTTP/2, with metadata as its header fields.
type request Call

func asRequest(c *Call) adapter.Request { return (*request)(c) }

func (x *request) Context() context.Context        { return x.ctx }
func (x *request) Method() string                  { return "POST" }
func (x *request) Path() string                    { return x.FullMethod }
func (x *request) Route() (string, bool)           { return x.FullMethod, true }
func (x *request) ContentLength() int64            { return -1 }
func (x *request) Cookie(string) string            { return "" }
func (x *request) Query(string) string             { return "" }
func (x *request) Param(string) string             { return "" }
func (x *request) Value(key any) any               { return x.ctx.Value(key) }
func (x *request) Header(name string) []string     { return metadata.ValueFromIncomingContext(x.ctx, name) }
func (x *request) Decision() *adapter.Decision     { return x.state.decision.Load() }
func (x *request) SetDecision(d *adapter.Decision) { x.state.decision.Store(d) }
func (x *request) RemoteAddr() string {
	if p, ok := peer.FromContext(x.ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// RemoteIP returns the peer's address from the connection itself.
func (x *request) RemoteIP() netip.Addr {
	if p, ok := peer.FromContext(x.ctx); ok {
		if tcp, ok := p.Addr.(*net.TCPAddr); ok {
			return tcp.AddrPort().Addr()
		}
	}
	return netip.Addr{}
}

// Response returns where the fields of the limits go. Messages of an open stream have none.
func (x *request) Response() core.HeaderWriter {
	if x.Stream && x.Message != nil {
		return nil
	}
	return x.state
}
