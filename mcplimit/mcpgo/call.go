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
	"github.com/tokenbucket-go/ratelimit/core/middleware/rpc"
)

// Call is a call of a tool that a limiter decides, as functions of the app see it.
type Call struct {
	Tool    string              // its name
	Request mcp.CallToolRequest // with the arguments, and the header of the HTTP request

	// Result and Err are the answer of the tool, for [WithSettle] and [WithRefund]. Result is nil if Err is not. If the tool panicked, Err
	// says so.
	Result *mcp.CallToolResult
	Err    error

	ctx       context.Context
	decisions *rpc.Decisions
}

// Context returns the call's context, with what middleware in front left in it.
func (c *Call) Context() context.Context { return c.ctx }

// Failed reports whether the tool answered with an error, or with a result that has isError. WithRefund((*Call).Failed) does not count
// failed calls.
func (c *Call) Failed() bool { return c.Err != nil || c.Result != nil && c.Result.IsError }

// asRequest returns a Call as the engine and extractors of HTTP read it.
func asRequest(c *Call) adapter.Request {
	return &rpc.Inbound{Procedure: "tools/call", Ctx: c.ctx, Fields: c.Request.Header, Decisions: c.decisions}
}

// KeyFunc returns the key of a call: who or what is limited. Without a key it returns [core.ErrNoKey]. That, an empty key and other
// errors are answered with a result that has isError and does not show the error. Begin a key of your own with its kind:
// core.JoinKey("user", id).
type KeyFunc func(*Call) (string, error)

// process tells the sessions of this process from those of others, where their ids don't.
var process = rand.Text()

// BySession limits by session. Its keys are different in each process for stdio and in-process clients, whose ids are not unique. Stateless
// streamable HTTP has no sessions, so these calls have no key.
//
// Clients of streamable HTTP can open as many sessions as they like, and unless the server has WithStateful they can make up ids. Each is
// a full bucket: limit users instead, by [ByContextValue] or [ByHeader].
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

// ByTool limits by the name of the tool. Clients can't make up tools: calls of unknown ones fail before.
func ByTool() KeyFunc {
	return func(c *Call) (string, error) { return core.JoinKey("tool", c.Tool), nil }
}

// ByHeader limits by a header field of the HTTP request, such as an API key. The keys are those of ByHeader for HTTP. Without HTTP there is
// no key.
func ByHeader(name string) KeyFunc { return adapt(adapter.ByHeader(name)) }

// ByContextValue limits by a value in the call's context: a string, an integer or another fmt.Stringer. See [adapter.ByContextValue].
func ByContextValue(key any) KeyFunc { return adapt(adapter.ByContextValue(key)) }

// Global limits all calls together. name is the name of their bucket.
func Global(name string) KeyFunc { return adapt(adapter.Global(name)) }

// Join limits by several keys together. Different keys never become the same one. See [middleware.Join].
func Join(keys ...KeyFunc) KeyFunc { return middleware.Join[*Call](keys...) }

// FirstOf limits by the first key that is not missing. See [middleware.FirstOf].
func FirstOf(keys ...KeyFunc) KeyFunc { return middleware.FirstOf[*Call](keys...) }

func adapt(key adapter.KeyFunc) KeyFunc { return adapter.Adapt(key, asRequest) }
