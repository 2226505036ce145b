package migration

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httprate"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// HTTPRateBefore is go-chi/httprate behind a proxy.
func HTTPRateBefore(r chi.Router) {
	byIP := func(r *http.Request) (string, error) {
		return httprate.CanonicalizeIP(middleware.GetClientIP(r.Context())), nil
	}
	r.Use(middleware.ClientIPFromXFF("10.0.0.0/8"))
	r.Use(httprate.LimitBy(100, time.Minute, httprate.JoinKeys(byIP, httprate.KeyByEndpoint)))
}

// HTTPRateAfter is the same with this library.
func HTTPRateAfter(r chi.Router) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(80).WithBurst(20)},
	}))
	byIP := chilimit.ByIP(core.TrustProxies("10.0.0.0/8"))
	r.Use(chilimit.New(limiter, chilimit.Join(byIP, chilimit.ByPath())))
}
