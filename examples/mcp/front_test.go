package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// request calls the tool repeat over HTTP, with fields that say version and name.
func request(t *testing.T, url, version, name string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call",
		"params":{"name":"repeat","arguments":{"text":"x","times":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"`+version+`",
		"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"v1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
	require.NoError(t, err)
	for field, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": name,
	} {
		req.Header.Set(field, value)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_ = resp.Body.Close()
	return resp
}

func TestHTTPInFrontLimitsByTheToolThatTheHeaderNames(t *testing.T) {
	perTool := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "tools", Limits: []core.Limit{core.PerHour(1)}}))
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v1"}, nil)
	ran := 0
	mcp.AddTool(server, &mcp.Tool{Name: "repeat"}, func(_ context.Context, _ *mcp.CallToolRequest, in repeatArguments) (*mcp.CallToolResult, any, error) {
		ran++
		return &mcp.CallToolResult{}, nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(httplimit.New(perTool, byTool)(handler))
	t.Cleanup(web.Close)

	assert.Equal(t, http.StatusOK, request(t, web.URL, "2026-07-28", "repeat").StatusCode)
	denied := request(t, web.URL, "2026-07-28", "repeat")
	assert.Equal(t, http.StatusTooManyRequests, denied.StatusCode, "the tool's token is taken")
	assert.NotEmpty(t, denied.Header.Get("Retry-After"))
	assert.Equal(t, http.StatusBadRequest, request(t, web.URL, "2026-07-28", "made-up").StatusCode, "the SDK refuses what the body contradicts")
	assert.Equal(t, http.StatusTooManyRequests, request(t, web.URL, "2026-07-28", "made-up-2").StatusCode, "made-up names share a bucket")
	assert.Equal(t, 1, ran)
	assert.Equal(t, http.StatusOK, request(t, web.URL, "2025-06-18", "free").StatusCode, "the premise: the SDK compares nothing in older versions")
	assert.Equal(t, http.StatusTooManyRequests, request(t, web.URL, "2025-06-18", "free-2").StatusCode, "older versions share a bucket, whatever they name")
	assert.Equal(t, 2, ran)
}
