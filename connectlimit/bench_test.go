package connectlimit_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// BenchmarkInterceptor is what the interceptor adds to a call, without what
// Connect does with the fields.
func BenchmarkInterceptor(b *testing.B) {
	for name, key := range map[string]connectlimit.KeyFunc{"global": connectlimit.Global("all"), "header": byKey} {
		b.Run(name, func(b *testing.B) {
			limiter := limiterOf(core.Policy{Name: "calls", Headers: core.HeadersDraft8, Limits: []core.Limit{core.PerSecond(1_000_000_000)}})
			answer := connect.NewResponse(hello())
			call := connectlimit.New(limiter, key).WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) { return answer, nil })
			req := connect.NewRequest(hello())
			req.Header().Set("X-Api-Key", "k")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := call(context.Background(), req); err != nil {
					b.Fatal("the premise: calls pass: ", err)
				}
			}
		})
	}
}
