package connectlimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// BenchmarkUnary is a call through Connect's handler without a network: what
// the interceptor adds is the difference to "none".
func BenchmarkUnary(b *testing.B) {
	keys := map[string]connectlimit.KeyFunc{"none": nil, "peer": connectlimit.ByPeer(), "header": byKey}
	for name, key := range keys {
		for style, headers := range map[string]core.HeaderStyle{"fields": core.HeadersDraft8, "no-fields": core.HeadersNone} {
			var options []connect.HandlerOption
			if key != nil {
				limiter := limiterOf(core.Policy{Name: "calls", Headers: headers, Limits: []core.Limit{core.PerSecond(1_000_000_000)}})
				options = append(options, connect.WithInterceptors(connectlimit.New(limiter, key)))
			} else if style == "no-fields" {
				continue
			}
			b.Run(name+"/"+style, func(b *testing.B) {
				handler := connect.NewUnaryHandler(once, func(_ context.Context, in *request) (*response, error) {
					return connect.NewResponse(in.Msg), nil
				}, options...)
				b.ReportAllocs()
				for b.Loop() {
					r := httptest.NewRequest(http.MethodPost, once, strings.NewReader(`"hello"`))
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("X-Api-Key", "k")
					w := httptest.NewRecorder()
					if handler.ServeHTTP(w, r); w.Code != 200 {
						b.Fatal("the premise: calls pass: ", w.Body)
					}
				}
			})
		}
	}
}

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
