package mcpgo_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/mcplimit/mcpgo"
)

func limiterOf(policy core.Policy) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
}

func perHour(name string, n int) *core.Limiter {
	return limiterOf(core.Policy{Name: name, Limits: []core.Limit{core.PerHour(n)}})
}

func all(*mcpgo.Call) (string, error) { return "all", nil }

// serving returns a server with middleware, whose tools "ask" and "other" do
// the same. By default they succeed.
func serving(do server.ToolHandlerFunc, middleware ...server.ToolHandlerMiddleware) *server.MCPServer {
	s := server.NewMCPServer("test", "v1")
	s.Use(middleware...)
	if do == nil {
		do = func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("42"), nil
		}
	}
	for _, name := range []string{"ask", "other"} {
		s.AddTool(mcp.NewTool(name), do)
	}
	return s
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// connected opens a client's session.
func connected(t *testing.T, c *client.Client, err error) *client.Client {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.Start(t.Context()))
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = "2025-11-25"
	hello.Params.ClientInfo = mcp.Implementation{Name: "client", Version: "v1"}
	_, err = c.Initialize(within(t), hello)
	require.NoError(t, err)
	return c
}

func inProcess(t *testing.T, s *server.MCPServer) *client.Client {
	t.Helper()
	c, err := client.NewInProcessClient(s)
	return connected(t, c, err)
}

// overHTTP connects a client, whose requests have header fields, to a handler
// that url serves.
func overHTTP(t *testing.T, url string, fields map[string]string) *client.Client {
	t.Helper()
	c, err := client.NewStreamableHttpClient(url, transport.WithHTTPHeaders(fields))
	return connected(t, c, err)
}

// served serves an MCP server over streamable HTTP until the test ends.
func served(t *testing.T, s *server.MCPServer, options ...server.StreamableHTTPOption) (url string) {
	h := httptest.NewServer(server.NewStreamableHTTPServer(s, options...))
	t.Cleanup(h.Close)
	return h.URL
}

// asks is a call of a tool with arguments.
func asks(tool string, arguments map[string]any) mcp.CallToolRequest {
	return mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: arguments}}
}

// call calls a tool, and returns its text, and whether that is an error.
func call(t *testing.T, c *client.Client, tool string) (text string, isError bool) {
	t.Helper()
	return send(t, c, asks(tool, nil))
}

func send(t *testing.T, c *client.Client, request mcp.CallToolRequest) (text string, isError bool) {
	t.Helper()
	result, err := c.CallTool(within(t), request)
	if err != nil {
		return err.Error(), true
	}
	require.NotEmpty(t, result.Content)
	return result.Content[0].(mcp.TextContent).Text, result.IsError
}

func passes(t *testing.T, c *client.Client, tool, rule string) {
	t.Helper()
	text, isError := call(t, c, tool)
	assert.Equal(t, "42", text, rule)
	assert.False(t, isError, rule)
}

func refused(t *testing.T, c *client.Client, tool, want, rule string) {
	t.Helper()
	text, isError := call(t, c, tool)
	assert.Regexp(t, want, text, rule)
	assert.True(t, isError, rule)
}

const denial = `^The rate limit "calls" is exceeded\. Try again in \d+ seconds?\.$`

func TestEachSessionHasItsOwnBucket(t *testing.T) {
	for name, connect := range map[string]func(s *server.MCPServer) func() *client.Client{
		"in process": func(s *server.MCPServer) func() *client.Client {
			return func() *client.Client { return inProcess(t, s) }
		},
		"streamable HTTP": func(s *server.MCPServer) func() *client.Client {
			url := served(t, s, server.WithStateful(true))
			return func() *client.Client { return overHTTP(t, url, nil) }
		},
		"SSE": func(s *server.MCPServer) func() *client.Client {
			h := httptest.NewUnstartedServer(nil)
			sse := server.NewSSEServer(s, server.WithBaseURL("http://"+h.Listener.Addr().String()))
			h.Config.Handler = sse
			h.Start()
			t.Cleanup(h.Close)
			return func() *client.Client {
				c, err := client.NewSSEMCPClient(h.URL + "/sse")
				return connected(t, c, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := connect(serving(nil, mcpgo.New(perHour("calls", 1), mcpgo.Join(mcpgo.BySession(), mcpgo.ByTool()))))
			a, b := next(), next()
			passes(t, a, "ask", "the session has a token")
			refused(t, a, "ask", denial, "a denial says which limit and when to try again")
			passes(t, a, "other", "another tool has its own bucket")
			passes(t, b, "ask", "two sessions never share a bucket")
			for range 3 {
				_, err := a.ListTools(within(t), mcp.ListToolsRequest{})
				assert.NoError(t, err, "listing is no call of a tool")
			}
		})
	}
}

func TestStatelessCallsHaveNoSession(t *testing.T) {
	url := served(t, serving(nil, mcpgo.New(perHour("calls", 1), mcpgo.BySession())), server.WithStateLess(true))
	refused(t, overHTTP(t, url, nil), "ask", `^The call has no usable key for its rate limit\.$`, "a stateless call has no session, and so no key")
}

func TestKeysOfHeadersAndContexts(t *testing.T) {
	type user struct{}
	for name, key := range map[string]mcpgo.KeyFunc{"header": mcpgo.ByHeader("X-Api-Key"), "context": mcpgo.FirstOf(mcpgo.ByHeader("none"), mcpgo.ByContextValue(user{}))} {
		t.Run(name, func(t *testing.T) {
			login := server.WithHTTPContextFunc(func(ctx context.Context, r *http.Request) context.Context {
				return context.WithValue(ctx, user{}, r.Header.Get("X-Api-Key"))
			})
			url := served(t, serving(nil, mcpgo.New(perHour("calls", 1), key)), login)
			open := func(key string) *client.Client { return overHTTP(t, url, map[string]string{"X-Api-Key": key}) }
			passes(t, open("a"), "ask", "the key has a token")
			refused(t, open("a"), "ask", denial, "another session has the same key")
			passes(t, open("b"), "ask", "another key")
		})
	}
}

func TestRefusalsShowNothingInternal(t *testing.T) {
	away := core.Must(core.NewLimiter(&limittest.AwayStore{Err: errors.New("dial tcp 10.1.2.3:6379: secret")}, core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed}))
	refused(t, inProcess(t, serving(nil, mcpgo.New(away, all))), "ask", `^The rate limit can't be checked at the moment\. Try again in 1 second\.$`, "no store")
	fails := func(*mcpgo.Call) (string, error) { return "", errors.New("secret") }
	refused(t, inProcess(t, serving(nil, mcpgo.New(perHour("calls", 1), fails))), "ask", `^The rate limit can't be checked\.$`, "a function failed")
}

func TestACallsLife(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(9), core.InFlight(1)}})
	var mu sync.Mutex
	answer := func() (*mcp.CallToolResult, error) { return mcp.NewToolResultText("42"), nil }
	do := func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_, ok := mcpgo.FromContext(ctx)
		assert.True(t, ok, "tools find the decision")
		assert.Len(t, mcpgo.AllFromContext(ctx), 1)
		mu.Lock()
		defer mu.Unlock()
		return answer()
	}
	s := server.NewMCPServer("test", "v1", server.WithRecovery())
	s.Use(mcpgo.New(limiter, all, mcpgo.WithRefund((*mcpgo.Call).Failed)))
	s.AddTool(mcp.NewTool("ask"), do)
	c := inProcess(t, s)
	for _, test := range []struct {
		name   string
		answer func() (*mcp.CallToolResult, error)
		left   float64
	}{
		{"a success", answer, 8},
		{"an error", func() (*mcp.CallToolResult, error) { return nil, assert.AnError }, 8},
		{"a result with isError", func() (*mcp.CallToolResult, error) { return mcp.NewToolResultError("no"), nil }, 8},
		{"a panic", func() (*mcp.CallToolResult, error) { panic("tool") }, 8},
		{"another success", answer, 7},
	} {
		answer = test.answer
		_, _ = call(t, c, "ask")
		require.Eventually(t, func() bool {
			res, err := limiter.Peek(t.Context(), "all")
			require.NoError(t, err)
			return res.Limits()[1].Remaining == 1
		}, time.Minute, time.Millisecond, "%s: the slot comes back", test.name)
		res, err := limiter.Peek(t.Context(), "all")
		require.NoError(t, err)
		assert.EqualValues(t, test.left, res.Limits()[0].Remaining, "%s: only failures give the token back", test.name)
	}
}

func TestUnitsAreTakenAndSettledByTheResult(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "text", Limits: []core.Limit{{Unit: "bytes", Capacity: 100, RefillRate: 1, RefillInterval: 1e15}}})
	units := mcpgo.WithUnits(func(*mcpgo.Call) (core.Units, error) { return core.Units{"bytes": 40}, nil })
	settle := mcpgo.WithSettle(func(c *mcpgo.Call) core.Units {
		return core.Units{"bytes": int64(len(c.Result.Content[0].(mcp.TextContent).Text))}
	})
	passes(t, inProcess(t, serving(nil, mcpgo.New(limiter, all, units, settle))), "ask", "the bucket is full")
	assert.EqualValues(t, 98, limittest.Left(t, limiter, "all"), "what was returned is taken in the end")
}

func TestRulesDecideTogether(t *testing.T) {
	tools, everything := perHour("calls", 1), perHour("all", 5)
	skip := mcpgo.WithSkip(func(c *mcpgo.Call) bool { return c.Tool == "other" })
	c := inProcess(t, serving(nil, mcpgo.NewTogether([]mcpgo.Rule{{Limiter: tools, Key: mcpgo.ByTool()}, {Limiter: everything, Key: all}}, skip)))
	passes(t, c, "ask", "both have tokens")
	refused(t, c, "ask", denial, "one has none")
	passes(t, c, "other", "a skipped call passes")
	assert.EqualValues(t, 4, limittest.Left(t, everything, "all"), "a denied call takes nothing from any limiter, and a skipped one neither")
}

func TestOnDeniedAndOnErrorAnswer(t *testing.T) {
	key := func(c *mcpgo.Call) (string, error) {
		if c.Tool == "other" {
			return "", core.ErrNoKey
		}
		return "all", nil
	}
	c := inProcess(t, serving(nil, mcpgo.New(perHour("calls", 1), key,
		mcpgo.OnDenied(func(*mcpgo.Call, core.Result) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("later"), nil
		}),
		mcpgo.OnError(func(*mcpgo.Call, error) (*mcp.CallToolResult, error) { return mcp.NewToolResultText("no key"), nil }))))
	passes(t, c, "ask", "the bucket is full")
	text, _ := call(t, c, "ask")
	assert.Equal(t, "later", text, "OnDenied answers")
	text, _ = call(t, c, "other")
	assert.Equal(t, "no key", text, "OnError answers")
}

func TestAllowInATool(t *testing.T) {
	accounts := perHour("accounts", 1)
	tool := func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if _, refusal := mcpgo.Allow(ctx, accounts, request.GetString("account", "")); refusal != nil {
			return refusal, nil
		}
		return mcp.NewToolResultText("42"), nil
	}
	c := inProcess(t, serving(tool))
	ask := func(account string) (string, bool) {
		return send(t, c, asks("ask", map[string]any{"account": account}))
	}
	text, isError := ask("a")
	assert.False(t, isError, text)
	text, isError = ask("a")
	assert.True(t, isError, "the second call of an account")
	assert.Contains(t, text, `"accounts" is exceeded`)
	text, isError = ask("")
	assert.True(t, isError, "a call without a key")
	assert.NotContains(t, text, "RL", "nothing internal")
	_, isError = ask("b")
	assert.False(t, isError, "another account")
}
