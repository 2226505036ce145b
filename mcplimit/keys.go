package mcplimit

import (
	"fmt"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// BySession limits by session. That is one connection for stdio, in-memory
// transports and SSE, and what Mcp-Session-Id names for streamable HTTP. A
// session that has ended leaves its bucket behind, which vanishes when it is
// full again.
//
// Version 2026-07-28 of the protocol has no sessions over HTTP, and neither has
// a stateless handler, so these requests have no key: use
// FirstOf(ByTokenSubject(), BySession()). With
// MCPGODEBUG=allowsessionsinstateless=1 clients make up the ids of stateless
// sessions, and get a full bucket for each. A client can open as many sessions
// as it likes: see [ByTokenSubject].
func BySession() KeyFunc {
	return func(c *Call) (string, error) {
		session := c.session()
		switch {
		case c.SessionID != "":
			return core.JoinKey("session", c.SessionID), nil
		case session == nil:
			return "", fmt.Errorf("%w: not a request to a server", core.ErrNoKey)
		case c.Header() != nil:
			return "", fmt.Errorf("%w: no session, because streamable HTTP is stateless", core.ErrNoKey)
		}
		return core.JoinKey("connection", connections.id(session)), nil
	}
}

// ByTool limits by the name of the called tool. Clients can make up names.
// Calls of unknown tools fail, but each name gets a full bucket. If names are
// given, all other names share one bucket.
func ByTool(names ...string) KeyFunc {
	if slices.Contains(names, "") {
		return middleware.BadArgument[*Call, string]("ByTool", "", `must be names of tools, such as "search"`)
	}
	known := slices.Clone(names)
	return func(c *Call) (string, error) {
		switch {
		case c.Tool == "":
			return "", fmt.Errorf("%w: no tool in the method %q", core.ErrNoKey, c.Method)
		case len(known) > 0 && !slices.Contains(known, c.Tool):
			return core.JoinKey("other tools"), nil
		}
		return adapter.Key("tool", c.Tool), nil
	}
}

// ByMethod limits by the method, such as tools/call: all tools together.
// Clients can't make up methods, because the SDK answers unknown ones first.
func ByMethod() KeyFunc {
	return func(c *Call) (string, error) { return adapter.Key("method", c.Method), nil }
}

// ByTokenSubject limits by the UserID that the app's TokenVerifier
// (auth.RequireBearerToken) set in the TokenInfo: the user that a bearer token
// stands for, whatever the session. Requests without a verified token, or
// without a UserID, have no key.
func ByTokenSubject() KeyFunc {
	return func(c *Call) (string, error) {
		info := c.TokenInfo()
		switch {
		case info == nil:
			return "", fmt.Errorf("%w: no verified bearer token", core.ErrNoKey)
		case info.UserID == "":
			return "", fmt.Errorf("%w: the TokenVerifier set no UserID", core.ErrNoKey)
		}
		return adapter.Key("subject", info.UserID), nil
	}
}
