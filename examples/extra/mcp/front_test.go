package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

// byTool is a key of httplimit in front of mcplimit.New: the tool that the header
// names, where the SDK checks that the body agrees.
func byTool(r *http.Request) (string, error) {
	switch name := r.Header.Get("Mcp-Name"); {
	case r.Header.Get("Mcp-Protocol-Version") < "2026-07-28" || r.Header.Get("Mcp-Method") != "tools/call":
		return core.JoinKey("other requests"), nil
	case name == "repeat":
		return core.JoinKey("tool", name), nil
	default:
		return core.JoinKey("other tools"), nil
	}
}

// toolCall calls the tool repeat over HTTP, with fields that say version and name.
func toolCall(t *testing.T, url, version, name string) *http.Response {
	t.Helper()
	return post(t, url, version, name, `{"jsonrpc":"2.0","id":1,"method":"tools/call",
		"params":{"name":"repeat","arguments":{"text":"x","times":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+`",
		"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"v1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
}

// post sends body, with fields that say version and name.
func post(t *testing.T, url, version, name, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for field, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": name,
	} {
		req.Header.Set(field, value)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body) // the answers of a batch come one by one
	require.NoError(t, err)
	_ = resp.Body.Close()
	return resp
}

// serveByTool serves the tool repeat without sessions, with limits of requests by byTool, and returns how often the tool ran.
func serveByTool(t *testing.T, requests core.Limit, behind ...mcp.Middleware) (url string, ran *atomic.Int64) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v1"}, nil)
	ran = new(atomic.Int64)
	mcp.AddTool(server, &mcp.Tool{Name: "repeat"}, func(_ context.Context, _ *mcp.CallToolRequest, in repeatArguments) (*mcp.CallToolResult, any, error) {
		ran.Add(1)
		return &mcp.CallToolResult{}, nil, nil
	})
	server.AddReceivingMiddleware(behind...)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(httplimit.New(core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "tools", Limits: []core.Limit{requests}})), byTool)(handler))
	t.Cleanup(web.Close)
	return web.URL, ran
}

func TestHTTPInFrontLimitsByTheToolThatTheHeaderNames(t *testing.T) {
	url, ran := serveByTool(t, core.PerHour(1))

	assert.Equal(t, http.StatusOK, toolCall(t, url, "2026-07-28", "repeat").StatusCode)
	denied := toolCall(t, url, "2026-07-28", "repeat")
	assert.Equal(t, http.StatusTooManyRequests, denied.StatusCode, "the tool's token is taken")
	assert.NotEmpty(t, denied.Header.Get("Retry-After"))
	assert.Equal(t, http.StatusBadRequest, toolCall(t, url, "2026-07-28", "made-up").StatusCode, "the SDK refuses what the body contradicts")
	assert.Equal(t, http.StatusTooManyRequests, toolCall(t, url, "2026-07-28", "made-up-2").StatusCode, "made-up names share a bucket")
	assert.EqualValues(t, 1, ran.Load())
	assert.Equal(t, http.StatusOK, toolCall(t, url, "2025-06-18", "free").StatusCode, "the premise: the SDK compares nothing in older versions")
	assert.Equal(t, http.StatusTooManyRequests, toolCall(t, url, "2025-06-18", "free-2").StatusCode, "older versions share a bucket, whatever they name")
	assert.EqualValues(t, 2, ran.Load())
}

func TestABatchIsOneRequestInFrontAndSeveralCallsBehind(t *testing.T) {
	calls := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(2)}}))
	url, ran := serveByTool(t, core.PerHour(1), mcplimit.New(calls, mcplimit.Global("calls")))
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"repeat","arguments":{"text":"x","times":1}}}`
	batch := "[" + fmt.Sprintf(call+","+call+","+call, 1, 2, 3) + "]"
	assert.Equal(t, http.StatusOK, post(t, url, "2025-03-26", "repeat", batch).StatusCode, "three calls for one token in front")
	assert.EqualValues(t, 2, ran.Load(), "mcplimit takes a token for each call")
	assert.Equal(t, http.StatusTooManyRequests, post(t, url, "2025-03-26", "repeat", batch).StatusCode)
	assert.Equal(t, http.StatusBadRequest, post(t, url, "2026-07-28", "repeat", batch).StatusCode, "the premise: later versions have no batches")
}
