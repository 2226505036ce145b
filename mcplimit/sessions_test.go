package mcplimit_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

func TestEachSessionHasItsOwnBucketWhateverItsTransport(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			next := connect(t, serving(nil, mcplimit.New(perHour("sessions", 2), mcplimit.BySession())))
			a, b := next(), next()
			for range 2 {
				require.Nil(t, call(t, a, "ask"), "the session has tokens")
			}
			refused(t, call(t, a, "other"), "sessions", "calls of one session share a bucket")
			assert.Nil(t, call(t, b, "ask"), "two sessions never share a bucket")
		})
	}
}

// Without a session each request would have a full bucket.
func TestStatelessRequestsHaveNoSession(t *testing.T) {
	url := served(t, streamableHandler(serving(nil, mcplimit.New(perHour("sessions", 1), mcplimit.BySession())), true))
	for name, client := range map[string]*http.Client{"plain": nil, "with an id that the client made up": with("Mcp-Session-Id", "mine")} {
		e := call(t, session(t, streamable(url, client)), "ask")
		require.NotNil(t, e, "%s: a stateless request has no session, and so no key", name)
		assert.EqualValues(t, -32602, e.Code, name)
	}
	byKey := mcplimit.FirstOf(mcplimit.BySession(), mcplimit.ByHeader("X-Api-Key"))
	url = served(t, streamableHandler(serving(nil, mcplimit.New(perHour("keys", 1), byKey)), true))
	s := session(t, streamable(url, with("X-Api-Key", "k")))
	require.Nil(t, call(t, s, "ask"))
	refused(t, call(t, s, "ask"), "keys", "FirstOf has the next key")
}

// The SDK names sessions of HTTP. A new one is a full bucket, which
// ByTokenSubject is the answer to.
func TestAUserHasOneBucketWhateverItsSessions(t *testing.T) {
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		info := &auth.TokenInfo{Expiration: time.Now().Add(time.Hour)}
		if token != "nobody" {
			info.UserID = "user-" + token
		}
		return info, nil
	}
	for name, test := range map[string]struct {
		handler func(*mcp.Server) http.Handler
		version string // of the protocol
	}{
		"with sessions":    {func(s *mcp.Server) http.Handler { return streamableHandler(s, false) }, "2025-11-25"},
		"without sessions": {func(s *mcp.Server) http.Handler { return streamableHandler(s, true) }, "2026-07-28"},
		"SSE": {func(s *mcp.Server) http.Handler {
			return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil)
		}, "2026-07-28"}, // in which only HTTP has no sessions
	} {
		t.Run(name, func(t *testing.T) {
			server := serving(nil, mcplimit.New(perHour("users", 2), mcplimit.ByTokenSubject()))
			url := served(t, auth.RequireBearerToken(verify, nil)(test.handler(server)))
			open := func(token string) *mcp.ClientSession {
				if client := with("Authorization", "Bearer "+token); name != "SSE" {
					return session(t, streamable(url, client))
				} else {
					return session(t, &mcp.SSEClientTransport{Endpoint: url, HTTPClient: client})
				}
			}
			first := open("a")
			require.Equal(t, test.version, first.InitializeResult().ProtocolVersion, "the premise: one version has sessions, and one has none")
			require.Nil(t, call(t, first, "ask"))
			require.Nil(t, call(t, open("a"), "ask"))
			refused(t, call(t, open("a"), "ask"), "users", "a new session of the same user shares its bucket")
			assert.Nil(t, call(t, open("b"), "ask"), "another user")
			e := call(t, open("nobody"), "ask")
			require.NotNil(t, e, "a token without a UserID has no key")
			assert.EqualValues(t, -32602, e.Code)
		})
	}
	e := call(t, inMemory(t, serving(nil, mcplimit.New(perHour("users", 2), mcplimit.ByTokenSubject()))), "ask")
	require.NotNil(t, e, "a transport without tokens has no key")
	assert.EqualValues(t, -32602, e.Code)
}

// TestConformance shows the keys that all adapters have.
func TestKeysOfCalls(t *testing.T) {
	for name, test := range map[string]struct {
		key  mcplimit.KeyFunc
		want string
	}{
		"ByTool":                   {mcplimit.ByTool(), "tool:ask"},
		"ByTool, named":            {mcplimit.ByTool("other", "ask"), "tool:ask"},
		"ByTool, not named":        {mcplimit.ByTool("other"), "other tools"},
		"ByMethod":                 {mcplimit.ByMethod(), "method:tools/call"},
		"own, of the arguments":    {func(c *mcplimit.Call) (string, error) { return string(c.Arguments), nil }, "{}"},
		"own, of the header":       {func(c *mcplimit.Call) (string, error) { return c.Header().Get("X-Api-Key"), nil }, "k"},
		"own, of the session's id": {func(c *mcplimit.Call) (string, error) { return strings.Repeat("s", min(len(c.SessionID), 1)), nil }, "s"},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := perHour("calls", 1)
			url := served(t, streamableHandler(serving(nil, mcplimit.New(limiter, test.key)), false))
			require.Nil(t, call(t, session(t, streamable(url, with("X-Api-Key", "k"))), "ask"))
			assert.EqualValues(t, 0, limittest.Left(t, limiter, test.want))
		})
	}
}

func TestMadeUpToolsShareABucketIfTheKnownOnesAreNamed(t *testing.T) {
	limiter := perHour("tools", 2)
	s := inMemory(t, serving(nil, mcplimit.New(limiter, mcplimit.ByTool("ask", "other"))))
	for _, name := range []string{"x", "y"} {
		e := call(t, s, name)
		require.NotNil(t, e)
		assert.EqualValues(t, -32602, e.Code, "the premise: the SDK refuses unknown tools")
	}
	refused(t, call(t, s, "z"), "tools", "unknown tools share a bucket")
	assert.Nil(t, call(t, s, "ask"), "a known tool has its own")
}
