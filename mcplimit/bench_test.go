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
