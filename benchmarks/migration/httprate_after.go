package migration

import (
	"github.com/go-chi/chi/v5"

	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// HTTPRateAfter limits each client to 10 requests a minute on each path.
func HTTPRateAfter(r chi.Router) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(10)},
	}))
	byIP := chilimit.ByIP(core.TrustProxies("10.0.0.7"))
	r.Use(chilimit.New(limiter, chilimit.Join(byIP, chilimit.ByPath())))
}
