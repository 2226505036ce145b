package promlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

func Example() {
	metrics := promlimit.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name:   "api",
		Limits: []core.Limit{core.PerHour(2).WithName("hourly")},
	}, core.WithObserver(metrics.Observe)))
	mux := http.NewServeMux()
	mux.Handle("/", httplimit.New(limiter, httplimit.ByIP())(http.NotFoundHandler()))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	get := func(path string) string {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Body.String()
	}
	for range 3 {
		get("/")
	}
	for line := range strings.Lines(get("/metrics")) {
		if strings.HasPrefix(line, "ratelimit_decisions_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// ratelimit_decisions_total{limit="hourly",outcome="allowed",policy="api",source="store"} 2
	// ratelimit_decisions_total{limit="hourly",outcome="denied",policy="api",source="store"} 1
}

// An option chooses the buckets of the duration histogram, here of decisions
// that take 1 ms and more.
func ExampleOption() {
	metrics := promlimit.New(promlimit.WithBuckets(0.001, 0.01, 0.1))
	prometheus.NewRegistry().MustRegister(metrics)
	// Output:
}
