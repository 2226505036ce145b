package mcplimit_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

// versions are those of the protocol: the last with sessions over HTTP, and the
// first without.
var versions = map[string]struct {
	stateless bool
	version   string
}{
	"with sessions":    {false, "2025-11-25"},
	"without sessions": {true, "2026-07-28"},
}

func TestUsersHaveOneBucketInBothVersionsOfTheProtocol(t *testing.T) {
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	limiter := perHour("users", 3)
	caller := mcplimit.FirstOf(mcplimit.ByTokenSubject(), mcplimit.BySession())
	var last *mcp.ClientSession
	for name, v := range versions {
		h := streamableHandler(serving(nil, mcplimit.New(limiter, caller)), v.stateless)
		url := served(t, auth.RequireBearerToken(verify, nil)(h))
		s := session(t, streamable(url, with("Authorization", "Bearer ann")))
		require.Equal(t, v.version, s.InitializeResult().ProtocolVersion, "%s: the premise", name)
		require.Nil(t, call(t, s, "ask"), name)
		last = s
	}
	require.Nil(t, call(t, last, "ask"), "the third token")
	refused(t, call(t, last, "ask"), "users", "both versions took from one bucket")
}

func TestWithoutATokenOnlyTheOlderVersionHasAKey(t *testing.T) {
	caller := mcplimit.FirstOf(mcplimit.ByTokenSubject(), mcplimit.BySession())
	for name, v := range versions {
		s := session(t, streamable(served(t, streamableHandler(serving(nil, mcplimit.New(perHour("calls", 1), caller)), v.stateless)), nil))
		e := call(t, s, "ask")
		if !v.stateless {
			assert.Nil(t, e, name)
			continue
		}
		require.NotNil(t, e, "%s: no session and no token", name)
		assert.EqualValues(t, jsonrpc.CodeInvalidParams, e.Code, name)
	}
}

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
