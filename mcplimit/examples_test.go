package mcplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

type question struct {
	Text string `json:"text"`
}

// answers serves the tool "ask" behind middleware, and returns a client of it.
func answers(middleware mcp.Middleware) *mcp.ClientSession {
	ctx := context.Background()
	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "v1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "ask"}, func(context.Context, *mcp.CallToolRequest, question) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "forty-two"}}}, nil, nil
	})
	server.AddReceivingMiddleware(middleware)
	here, there := mcp.NewInMemoryTransports()
	core.Must(server.Connect(ctx, here, nil))
	return core.Must(mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1"}, nil).Connect(ctx, there, nil))
}

var ask = &mcp.CallToolParams{Name: "ask", Arguments: question{Text: "what?"}}

// Each user has one call of a tool an hour, and so has each session of clients
// without a token. The data of a denial say what a client needs.
func Example() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "tools", Limits: []core.Limit{core.PerHour(1)}}))
	caller := mcplimit.FirstOf(mcplimit.ByTokenSubject(), mcplimit.BySession())
	client := answers(mcplimit.New(limiter, mcplimit.Join(caller, mcplimit.ByTool("ask"))))
	defer func() { _ = client.Close() }()

	_, err := client.CallTool(context.Background(), ask)
	fmt.Println(err)
	_, err = client.CallTool(context.Background(), ask)
	var refusal *jsonrpc.Error
	if errors.As(err, &refusal) && refusal.Code == mcplimit.CodeLimited {
		var data struct {
			RetryAfter float64 `json:"retryAfter"` // seconds
			Limit      string  `json:"limit"`
		}
		_ = json.Unmarshal(refusal.Data, &data)
		fmt.Printf("%s: try again in %.0f minutes\n", data.Limit, data.RetryAfter/60)
	}
	// Output:
	// <nil>
	// tools: try again in 60 minutes
}

// A refusal that a language model can read.
func ExampleRefuseAsToolResult() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "tools", Limits: []core.Limit{core.PerHour(1)}}))
	expensive := mcplimit.WithCost(func(*mcplimit.Call) (int64, error) { return 2, nil })
	client := answers(mcplimit.New(limiter, mcplimit.ByTool("ask"), expensive, mcplimit.RefuseAsToolResult()))
	defer func() { _ = client.Close() }()

	result, err := client.CallTool(context.Background(), ask)
	fmt.Println(err, result.IsError)
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// <nil> true
	// This call asks for more than the rate limit "tools" can ever allow. Do not repeat it.
}

// A call pays for the text that it returns: an estimate first, and what it
// really was in the end.
func ExampleWithSettle() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "text", Limits: []core.Limit{{Unit: "bytes", Capacity: 1000, RefillRate: 1000, RefillInterval: 24 * time.Hour}},
	}))
	estimate := mcplimit.WithUnits(func(*mcplimit.Call) (core.Units, error) { return core.Units{"bytes": 100}, nil })
	settle := mcplimit.WithSettle(func(c *mcplimit.Call) core.Units {
		bytes := 0
		if result, ok := c.Result.(*mcp.CallToolResult); ok {
			for _, content := range result.Content {
				if text, ok := content.(*mcp.TextContent); ok {
					bytes += len(text.Text)
				}
			}
		}
		return core.Units{"bytes": int64(bytes)}
	})
	client := answers(mcplimit.New(limiter, mcplimit.Global("all"), estimate, settle))
	defer func() { _ = client.Close() }()

	_, err := client.CallTool(context.Background(), ask)
	left := core.Must(limiter.Peek(context.Background(), "global:all"))
	fmt.Println(err, left.Remaining)
	// Output: <nil> 991
}

// A tool and the whole server have limits that hold together.
func ExampleNewTogether() {
	tools := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "tools", Limits: []core.Limit{core.PerHour(1)}}))
	server := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "server", Limits: []core.Limit{core.PerHour(100)}}))
	client := answers(mcplimit.NewTogether([]mcplimit.Rule{
		{Limiter: tools, Key: mcplimit.Join(mcplimit.FirstOf(mcplimit.ByTokenSubject(), mcplimit.BySession()), mcplimit.ByTool("ask"))},
		{Limiter: server, Key: mcplimit.Global("server")},
	}))
	defer func() { _ = client.Close() }()

	for range 2 {
		_, err := client.CallTool(context.Background(), ask)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// calling "tools/call": rate limit exceeded
}

// A key of the arguments: each document has its own bucket.
func ExampleKeyFunc() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "questions", Limits: []core.Limit{core.PerHour(1)}}))
	var byText mcplimit.KeyFunc = func(c *mcplimit.Call) (string, error) {
		var q question
		if err := json.Unmarshal(c.Arguments, &q); err != nil || q.Text == "" {
			return "", core.ErrNoKey
		}
		return core.JoinKey("question", q.Text), nil
	}
	options := []mcplimit.Option{mcplimit.WithSkip(func(c *mcplimit.Call) bool { return c.Tool != "ask" })}
	client := answers(mcplimit.New(limiter, byText, options...))
	defer func() { _ = client.Close() }()

	_, err := client.CallTool(context.Background(), ask)
	fmt.Println(err)
	// Output: <nil>
}
