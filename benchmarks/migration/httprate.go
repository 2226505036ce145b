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

// HTTPRateBefore limits each client to 10 requests a minute on each path.
func HTTPRateBefore(r chi.Router) {
	byIP := func(r *http.Request) (string, error) {
		return httprate.CanonicalizeIP(middleware.GetClientIP(r.Context())), nil
	}
	r.Use(middleware.ClientIPFromXFF("10.0.0.7/32"))
	r.Use(httprate.LimitBy(10, time.Minute, httprate.JoinKeys(byIP, httprate.KeyByEndpoint)))
}

// HTTPRateAfter limits each client to 10 requests a minute on each path.
func HTTPRateAfter(r chi.Router) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(10)},
	}))
	r.Use(chilimit.New(limiter, chilimit.Join(chilimit.ByIP(core.TrustProxies("10.0.0.7")), chilimit.ByPath())))
}
