package middleware_test

import (
	"context"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// An adapter for a protocol on JSON-RPC: it has a call decided, and answers one
// that does not pass.
func ExampleInbound() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}))
	key := func(method string) (string, error) { return core.JoinKey("method", method), nil }
	engine := middleware.New(limiter, key, middleware.Options[string]{}, middleware.Protocol[string]{})
	for range 2 {
		decisions, ctx := middleware.DecisionsIn(context.Background(), "call")
		a := engine.Begin("tools/call", &middleware.Inbound{Procedure: middleware.Procedure("tools/call"), Ctx: ctx, Decisions: decisions})
		if a.Verdict == middleware.Allowed {
			_, decided := middleware.FromContext(middleware.Stored(ctx))
			fmt.Println("the handler runs, and finds a decision:", decided)
			continue
		}
		refusal := a.Refusal(ctx)
		fmt.Println(refusal.Code == middleware.CodeResourceExhausted, refusal.JSONCode(), refusal.Limits)
	}
	// Output:
	// the handler runs, and finds a decision: true
	// true 429 [calls]
}
