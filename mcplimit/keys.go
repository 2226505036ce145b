package mcplimit

import (
	"fmt"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// KeyFunc returns the key of a request: who or what is limited. Without a key it returns [core.ErrNoKey]. That and an empty key are
// answered with the code of invalid params. A *jsonrpc.Error is answered as it is, unless its code is that of an internal error. Any
// other error is answered as an internal error. Begin a key of your own with its kind: core.JoinKey("user", id).
type KeyFunc func(*Call) (string, error)

// BySession limits by session. That is one connection for stdio, in-memory transports and SSE, and what Mcp-Session-Id names for
// streamable HTTP. A session that has ended leaves its bucket behind, which vanishes when it is full again.
//
// Stateless streamable HTTP has no sessions, so these requests have no key: use ByTokenSubject, or FirstOf(BySession(), …). A client can
// open as many sessions as it likes: see [ByTokenSubject].
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

// ByTool limits by the name of the called tool. Clients can make up names. Calls of unknown tools fail, but each name gets a full
// bucket. If names are given, all other names share one bucket.
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
		return core.JoinKey("tool", c.Tool), nil
	}
}

// ByMethod limits by the method, such as tools/call: all tools together. Clients can't make up methods, because the SDK answers unknown
// ones first.
func ByMethod() KeyFunc {
	return func(c *Call) (string, error) { return core.JoinKey("method", c.Method), nil }
}

// ByTokenSubject limits by the UserID that the app's TokenVerifier (auth.RequireBearerToken) set in the TokenInfo: the user that a bearer
// token stands for, whatever the session. Requests without a verified token, or without a UserID, have no key.
func ByTokenSubject() KeyFunc {
	return func(c *Call) (string, error) {
		info := c.TokenInfo()
		switch {
		case info == nil:
			return "", fmt.Errorf("%w: no verified bearer token", core.ErrNoKey)
		case info.UserID == "":
			return "", fmt.Errorf("%w: the TokenVerifier set no UserID", core.ErrNoKey)
		}
		return core.JoinKey("subject", info.UserID), nil
	}
}

// ByHeader limits by a header field of the HTTP request, such as an API key. If the field came several times with different values, the
// code is that of invalid params. The keys are those of ByHeader for HTTP. Requests of stdio, in-memory transports and SSE have no key.
func ByHeader(name string) KeyFunc { return adapt(adapter.ByHeader(name)) }

// ByContextValue limits by a value in the request's context: a string, an integer or another fmt.Stringer. See
// [adapter.ByContextValue]. In a session the values are those of the HTTP request that opened it: see [Call.Context].
func ByContextValue(key any) KeyFunc { return adapt(adapter.ByContextValue(key)) }

// Global limits all requests together. name is the name of their bucket.
func Global(name string) KeyFunc { return adapt(adapter.Global(name)) }

// Join limits by several keys together. Different keys never become the same one. See [middleware.Join].
func Join(keys ...KeyFunc) KeyFunc { return middleware.Join[*Call](keys...) }

// FirstOf limits by the first key that is not missing. See [middleware.FirstOf].
func FirstOf(keys ...KeyFunc) KeyFunc { return middleware.FirstOf[*Call](keys...) }

func adapt(key adapter.KeyFunc) KeyFunc { return adapter.Adapt(key, asRequest) }
