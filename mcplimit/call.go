package mcplimit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Call is a request that a limiter decides, as functions of the app see it.
type Call struct {
	Method    string          // such as tools/call
	Tool      string          // the name of the called tool, as the client wrote it; "" for other methods
	Arguments json.RawMessage // of the called tool, as the client sent them
	SessionID string          // of streamable HTTP; "" for stdio, in-memory transports, SSE, and without a session
	Request   mcp.Request     // the SDK's

	// Result and Err are the answer of the handler, for [WithSettle] and
	// [WithRefund]. Result is nil if Err is not. If the handler panicked, Err
	// says so.
	Result mcp.Result
	Err    error

	ctx       context.Context
	decisions *middleware.Decisions
}

// errPanicked is the Err of a call whose handler did not return.
var errPanicked = errors.New("the handler panicked")

func newCall(ctx context.Context, decisions *middleware.Decisions, method string, req mcp.Request) *Call {
	c := &Call{Method: method, Request: req, Err: errPanicked, ctx: ctx, decisions: decisions}
	if params, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && params != nil {
		c.Tool, c.Arguments = params.Name, params.Arguments
	}
	if session := c.session(); session != nil {
		c.SessionID = session.ID()
	}
	return c
}

// Context returns the request's context. Its values are those of the context
// that opened the session: for streamable HTTP with sessions, and for SSE, the
// first HTTP request.
func (c *Call) Context() context.Context { return c.ctx }

// Header returns the header of the HTTP request. It is nil for stdio, in-memory
// transports and SSE.
func (c *Call) Header() http.Header {
	if extra := c.Request.GetExtra(); extra != nil {
		return extra.Header
	}
	return nil
}

// TokenInfo returns what the app's TokenVerifier said about the bearer token of
// the HTTP request, and for SSE of the one that opened the session. It is nil
// if no token was verified.
func (c *Call) TokenInfo() *auth.TokenInfo {
	if extra := c.Request.GetExtra(); extra != nil {
		return extra.TokenInfo
	}
	return auth.TokenInfoFromContext(c.ctx)
}

// Failed reports whether the handler answered with an error, or a tool with a
// result that has isError. WithRefund((*Call).Failed) does not count failed
// calls.
func (c *Call) Failed() bool {
	result, ok := c.Result.(*mcp.CallToolResult)
	return c.Err != nil || ok && result != nil && result.IsError
}

// session returns the server's session, or nil.
func (c *Call) session() *mcp.ServerSession {
	session, _ := c.Request.GetSession().(*mcp.ServerSession)
	return session
}

// asRequest returns a Call as the engine and extractors of HTTP read it.
func asRequest(c *Call) adapter.Request {
	return &middleware.Inbound{Procedure: middleware.Procedure(c.Method), Ctx: c.ctx, Fields: c.Header(), Decisions: c.decisions}
}
