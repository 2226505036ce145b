package mcplimit_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

// tool is what a tool of a test does.
type tool func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)

func says(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// serving returns a server with middleware, whose tools "ask" and "other" do
// the same. By default they succeed.
func serving(do tool, middleware ...mcp.Middleware) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v1"}, nil)
	if do == nil {
		do = func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return says("42"), nil }
	}
	for _, name := range []string{"ask", "other"} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, mcp.ToolHandler(do))
	}
	s.AddReceivingMiddleware(middleware...)
	return s
}

// within is the context of a test's calls.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// session connects a client.
func session(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1"}, nil).Connect(within(t), transport, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// inMemory connects a client to server within the process.
func inMemory(t *testing.T, server *mcp.Server) *mcp.ClientSession {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	_, err := server.Connect(within(t), here, nil)
	require.NoError(t, err)
	return session(t, there)
}

// served serves a handler on loopback until the test ends.
func served(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// with is an HTTP client whose requests have a header field.
func with(name, value string) *http.Client {
	return &http.Client{Transport: field{name, value}}
}

type field struct{ name, value string }

func (f field) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(f.name, f.value)
	return http.DefaultTransport.RoundTrip(r)
}

// streamable is a transport of streamable HTTP.
func streamable(url string, client *http.Client) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: client, DisableStandaloneSSE: true}
}

func streamableHandler(server *mcp.Server, stateless bool) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
}

// transports connect a client to a server by each transport, those with
// sessions.
var transports = map[string]func(t *testing.T, server *mcp.Server) func() *mcp.ClientSession{
	"in memory": func(t *testing.T, server *mcp.Server) func() *mcp.ClientSession {
		return func() *mcp.ClientSession { return inMemory(t, server) }
	},
	"streamable HTTP": func(t *testing.T, server *mcp.Server) func() *mcp.ClientSession {
		url := served(t, streamableHandler(server, false))
		return func() *mcp.ClientSession { return session(t, streamable(url, nil)) }
	},
	"SSE": func(t *testing.T, server *mcp.Server) func() *mcp.ClientSession {
		url := served(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
		return func() *mcp.ClientSession { return session(t, &mcp.SSEClientTransport{Endpoint: url}) }
	},
}

// call calls a tool, and returns the JSON-RPC error, or nil.
func call(t *testing.T, s *mcp.ClientSession, name string) *jsonrpc.Error {
	t.Helper()
	_, err := s.CallTool(within(t), &mcp.CallToolParams{Name: name, Arguments: map[string]any{}})
	return refusal(t, err)
}

// refusal returns the JSON-RPC error that err is.
func refusal(t *testing.T, err error) *jsonrpc.Error {
	t.Helper()
	if err == nil {
		return nil
	}
	var e *jsonrpc.Error
	require.ErrorAs(t, err, &e, "a refusal reaches clients as a *jsonrpc.Error")
	return e
}

func limiterOf(policy core.Policy) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
}

func perHour(name string, n int) *core.Limiter {
	return limiterOf(core.Policy{Name: name, Limits: []core.Limit{core.PerHour(n)}})
}

// all is a key that all requests share.
func all(*mcplimit.Call) (string, error) { return "all", nil }

// refused asserts that e is a denial by limit.
func refused(t *testing.T, e *jsonrpc.Error, limit, rule string) {
	t.Helper()
	if assert.NotNil(t, e, rule) {
		assert.EqualValues(t, mcplimit.CodeLimited, e.Code, rule)
		assert.Contains(t, string(e.Data), `"limit":"`+limit+`"`, rule)
	}
}
