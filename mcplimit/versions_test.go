package mcplimit_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

// post sends a call of a tool as a client of version 2026-07-28 does, with
// fields of the header that may say something else.
func post(t *testing.T, url, tool string, fields map[string]string) (*http.Response, *jsonrpc.Error) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"v1"},
		"io.modelcontextprotocol/clientCapabilities":{}}}}`
	if fields["batch"] != "" {
		body = "[" + body + "]"
	}
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/call")
	req.Header.Set("Mcp-Name", tool)
	for name, value := range fields {
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var answer struct{ Error *jsonrpc.Error }
	_ = json.NewDecoder(resp.Body).Decode(&answer) // an answer by text or by event has no error for us
	return resp, answer.Error
}

// A limit by a field of the header holds only if the server refuses what the
// body does not confirm.
func TestTheSDKRefusesAHeaderThatTheBodyContradicts(t *testing.T) {
	ran := false
	server := serving(func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ran = true
		return says("42"), nil
	})
	url := served(t, streamableHandler(server, true))
	for name, fields := range map[string]map[string]string{
		"another tool":   {"Mcp-Name": "other"},
		"no name":        {"Mcp-Name": ""},
		"another method": {"Mcp-Method": "tools/list"},
		"no method":      {"Mcp-Method": ""},
	} {
		resp, e := post(t, url, "ask", fields)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, name)
		if assert.NotNil(t, e, name) {
			assert.EqualValues(t, -32020, e.Code, "%s: HeaderMismatch", name)
		}
	}
	resp, _ := post(t, url, "ask", map[string]string{"batch": "yes", "Mcp-Name": "other"})
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode, "a batch has no header that fits all of it")
	assert.False(t, ran, "no such call runs")
}

// The SDK maps the codes that the protocol defines to statuses of HTTP, and
// answers all others with 200.
func TestADenialOverHTTPHasStatus200(t *testing.T) {
	url := served(t, streamableHandler(serving(nil, mcplimit.New(perHour("calls", 1), all)), true))
	_, _ = post(t, url, "ask", nil)
	resp, _ := post(t, url, "ask", nil)
	assert.Equal(t, http.StatusOK, resp.StatusCode, "docs/rpc.md says so")
	e := call(t, session(t, streamable(url, nil)), "ask")
	refused(t, e, "calls", "the client gets code and data")
}
