package mcpgo_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/mcplimit/mcpgo"
)

// A tool that calls a server within the process passes its context on.
func TestACallWithinACallIsACallOfItsOwn(t *testing.T) {
	outer, inner := perHour("outer", 10), perHour("inner", 10)
	other := inProcess(t, serving(func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		assert.Len(t, mcpgo.AllFromContext(ctx), 1, "the decision about the call within alone")
		return mcp.NewToolResultText("42"), nil
	}, mcpgo.New(inner, all)))
	c := inProcess(t, serving(func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for range 3 {
			if _, err := other.CallTool(ctx, asks("ask", nil)); err != nil {
				return nil, err
			}
		}
		res, _ := mcpgo.FromContext(ctx)
		assert.EqualValues(t, 9, res.Remaining, "the decision about the outer call")
		return mcp.NewToolResultText("42"), nil
	}, mcpgo.New(outer, all)))
	passes(t, c, "ask", "a call that makes others")
	assert.EqualValues(t, 9, limittest.Left(t, outer, "all"))
	assert.EqualValues(t, 7, limittest.Left(t, inner, "all"), "each call within is counted")
}

// A tool may call other tools of its own server, in the same session.
func TestToolsThatCallOthersOfTheirServerPayForEach(t *testing.T) {
	limiter := perHour("calls", 10)
	var s *server.MCPServer
	s = serving(func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if request.Params.Name == "ask" {
			for range 2 {
				s.HandleMessage(ctx, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}`))
			}
		}
		return mcp.NewToolResultText("42"), nil
	}, mcpgo.New(limiter, all))
	passes(t, inProcess(t, s), "ask", "a call that makes others")
	assert.EqualValues(t, 7, limittest.Left(t, limiter, "all"), "one for the call, and two for those within")
}
