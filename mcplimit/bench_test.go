package mcplimit_test

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

// BenchmarkCall is what the middleware adds to a call, without the transport.
func BenchmarkCall(b *testing.B) {
	answer := says("42")
	next := func(context.Context, string, mcp.Request) (mcp.Result, error) { return answer, nil }
	req := &mcp.CallToolRequest{Session: new(mcp.ServerSession), Params: &mcp.CallToolParamsRaw{Name: "ask"}}
	for name, key := range map[string]mcplimit.KeyFunc{"tool": mcplimit.ByTool(), "session-and-tool": mcplimit.Join(mcplimit.BySession(), mcplimit.ByTool())} {
		b.Run(name, func(b *testing.B) {
			handle := mcplimit.New(limiterOf(core.Policy{Name: "calls", Limits: []core.Limit{core.PerSecond(1_000_000_000)}}), key)(next)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := handle(b.Context(), "tools/call", req); err != nil {
					b.Fatal("the premise: calls pass: ", err)
				}
			}
		})
	}
}

// BenchmarkServer is a call of a client in the same process, with and without
// the middleware.
func BenchmarkServer(b *testing.B) {
	for name, middleware := range map[string][]mcp.Middleware{
		"plain":   nil,
		"limited": {mcplimit.New(limiterOf(core.Policy{Name: "calls", Limits: []core.Limit{core.PerSecond(1_000_000_000)}}), mcplimit.Join(mcplimit.BySession(), mcplimit.ByTool()))},
	} {
		b.Run(name, func(b *testing.B) {
			here, there := mcp.NewInMemoryTransports()
			core.Must(serving(nil, middleware...).Connect(b.Context(), here, nil))
			s := core.Must(mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1"}, nil).Connect(b.Context(), there, nil))
			defer func() { _ = s.Close() }()
			params := &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.CallTool(b.Context(), params); err != nil {
					b.Fatal("the premise: calls pass: ", err)
				}
			}
		})
	}
}
