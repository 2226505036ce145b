package mcpgo_test

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/mcplimit/mcpgo"
)

// A tool and the whole server have limits that hold together.
func Example() {
	tools := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "tools", Limits: []core.Limit{core.PerHour(2)}}))
	everything := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "server", Limits: []core.Limit{core.PerHour(100)}}))
	byTool := mcpgo.Join(mcpgo.BySession(), mcpgo.ByTool())
	options := []mcpgo.Option{mcpgo.WithCost(func(c *mcpgo.Call) (int64, error) {
		if c.Request.GetBool("deep", false) {
			return 3, nil
		}
		return 1, nil
	})}
	s := server.NewMCPServer("example", "v1", server.WithToolHandlerMiddleware(mcpgo.NewTogether([]mcpgo.Rule{
		{Limiter: tools, Key: byTool},
		{Limiter: everything, Key: mcpgo.Global("server")},
	}, options...)))
	s.AddTool(mcp.NewTool("search", mcp.WithBoolean("deep")), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("found"), nil
	})

	ctx := context.Background()
	c := core.Must(client.NewInProcessClient(s))
	defer func() { _ = c.Close() }()
	core.Must[any](nil, c.Start(ctx))
	core.Must(c.Initialize(ctx, mcp.InitializeRequest{}))
	for _, deep := range []bool{false, true} {
		request := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "search", Arguments: map[string]any{"deep": deep}}}
		result := core.Must(c.CallTool(ctx, request))
		fmt.Println(result.Content[0].(mcp.TextContent).Text)
	}
	// Output:
	// found
	// This call asks for more than the rate limit "tools" can ever allow. Do not repeat it.
}
