package connectlimit

import (
	"context"
	"net"
	"net/http"

	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Call is a call that a limiter decides, as functions of the app see it.
type Call struct {
	Procedure  string // such as /files.v1.Files/Read
	StreamType connect.StreamType
	Message    any // the request of a unary call, or with PerMessage the message; nil when a stream opens

	ctx    context.Context
	caller caller
	state  *state
}

// caller is who calls.
type caller interface {
	Header() http.Header
	Peer() connect.Peer
}

// handlerConn is a stream as a caller.
type handlerConn struct{ connect.StreamingHandlerConn }

func (h handlerConn) Header() http.Header { return h.RequestHeader() }

// Context returns the call's context, with what earlier interceptors left in
// it.
func (c *Call) Context() context.Context { return c.ctx }

// Header returns the header of the call's request. Don't change it.
func (c *Call) Header() http.Header { return c.caller.Header() }

// Peer returns the client, with its protocol.
func (c *Call) Peer() connect.Peer { return c.caller.Peer() }

// isMessage reports whether c is a message of an open stream.
func (c *Call) isMessage() bool { return c.StreamType != connect.StreamTypeUnary && c.Message != nil }

// request is a Call as the engine and extractors of HTTP read it.
type request struct {
	middleware.Procedure
	call *Call
}

func asRequest(c *Call) adapter.Request { return &request{middleware.Procedure(c.Procedure), c} }

func (x *request) Context() context.Context           { return x.call.ctx }
func (x *request) Value(key any) any                  { return x.call.ctx.Value(key) }
func (x *request) Decision() *middleware.Decision     { return x.call.state.decision.Load() }
func (x *request) SetDecision(d *middleware.Decision) { x.call.state.decision.Store(d) }
func (x *request) Header(name string) []string        { return x.call.Header().Values(name) }
func (x *request) BinaryIsEncoded()                   {}
func (x *request) RemoteAddr() string                 { return x.call.Peer().Addr }
func (x *request) LocalAddr() net.Addr                { return adapter.LocalAddr(x.call.ctx) }

// Response returns where the fields of the limits go. Messages of an open
// stream have none. Handlers may have several goroutines, so they get the
// state, which locks. Interceptors decide before the handler runs.
func (x *request) Response() core.HeaderWriter {
	if x.call.isMessage() {
		return nil
	}
	if _, inHandler := x.call.caller.(infoCaller); inHandler {
		return x.call.state
	}
	return x.call.state.header()
}
