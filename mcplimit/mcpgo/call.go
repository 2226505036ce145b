package mcpgo

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Call is a call of a tool that a limiter decides, as functions of the app see
// it.
type Call struct {
	Tool    string              // its name
	Request mcp.CallToolRequest // with the arguments, and the header of the HTTP request

	// Result and Err are the answer of the tool, for [WithSettle] and
	// [WithRefund]. Result is nil if Err is not. If the tool panicked, Err says
	// so.
	Result *mcp.CallToolResult
	Err    error

	ctx       context.Context
	decisions *middleware.Decisions
}

// identity tells a call from those that its tool makes within the process. Ids
// of sessions alone are not unique.
type identity struct {
	server        *server.MCPServer
	session, tool string
}

func identityOf(ctx context.Context, tool string) identity {
	i := identity{server: server.ServerFromContext(ctx), tool: tool}
	if session := server.ClientSessionFromContext(ctx); session != nil {
		i.session = session.SessionID()
	}
	return i
}

// Context returns the call's context, with what middleware in front left in it.
func (c *Call) Context() context.Context { return c.ctx }

// Failed reports whether the tool answered with an error, or with a result that
// has isError. WithRefund((*Call).Failed) does not count failed calls.
func (c *Call) Failed() bool { return c.Err != nil || c.Result != nil && c.Result.IsError }

// asRequest returns a Call as the engine and extractors of HTTP read it.
func asRequest(c *Call) adapter.Request {
	return &middleware.Inbound{Procedure: "tools/call", Ctx: c.ctx, Fields: c.Request.Header, Decisions: c.decisions}
}

// process tells the sessions of this process from those of others, where their
// ids don't.
var process = rand.Text()

// BySession limits by session. Its keys are different in each process for stdio
// and in-process clients, whose ids are not unique. Stateless streamable HTTP
// has no sessions, so these calls have no key, and neither has version
// 2026-07-28 of the protocol over HTTP: begin with the user, and fall back on
// the session by FirstOf.
//
// Clients of streamable HTTP can open as many sessions as they like, and unless
// the server has WithStateful they can make up ids. Each is a full bucket:
// limit users instead, by [ByContextValue] or [ByHeader].
func BySession() KeyFunc {
	return func(c *Call) (string, error) {
		session := server.ClientSessionFromContext(c.ctx)
		if session == nil || session.SessionID() == "" {
			return "", fmt.Errorf("%w: no session", core.ErrNoKey)
		}
		id := session.SessionID()
		if _, local := session.(*server.InProcessSession); local || id == "stdio" {
			return core.JoinKey("session", id, process), nil
		}
		return core.JoinKey("session", id), nil
	}
}

// ByTool limits by the name of the tool. Clients can't make up tools: calls of
// unknown ones fail before.
func ByTool() KeyFunc {
	return func(c *Call) (string, error) { return adapter.Key("tool", c.Tool), nil }
}
