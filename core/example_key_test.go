package core_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// The key of a bucket is what the middleware's extractor returned.
func ExampleLimiter_Reset() {
	var seen string // by the observer
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), policy,
		core.WithObserver(func(_ context.Context, o core.Observation) { seen = o.Key })))
	byRouteAndKey := httplimit.New(limiter, httplimit.Join(httplimit.ByRoute(), httplimit.ByHeader("X-Api-Key")))
	byIP := httplimit.New(limiter, httplimit.ByIP())
	mux := http.NewServeMux()
	mux.Handle("/items/{id}", byRouteAndKey(http.NotFoundHandler()))
	mux.Handle("/", byIP(http.NotFoundHandler()))

	for _, path := range []string{"/items/7", "/"} {
		r := httptest.NewRequest(http.MethodGet, path, nil) // from 192.0.2.1
		r.Header.Set("X-Api-Key", "ann")
		mux.ServeHTTP(httptest.NewRecorder(), r)
		fmt.Println(seen)
	}

	ctx := context.Background()
	for _, key := range []string{"route:/items/{id}|x-api-key:ann", "ip:192.0.2.1", "192.0.2.1"} { // the last is another key
		before := core.Must(limiter.Peek(ctx, key)).Remaining
		if err := limiter.Reset(ctx, key); err != nil {
			fmt.Println(err)
		}
		fmt.Println(key, before, core.Must(limiter.Peek(ctx, key)).Remaining)
	}
	// Output:
	// route:/items/{id}|x-api-key:ann
	// ip:192.0.2.1
	// route:/items/{id}|x-api-key:ann 59 60
	// ip:192.0.2.1 59 60
	// 192.0.2.1 60 60
}
