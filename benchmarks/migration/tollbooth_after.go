package migration

import (
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// TollboothAfter limits each client, on each path, to 5 POST requests a second and bursts of 20.
func TollboothAfter(handler http.Handler) http.Handler {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "posts", Limits: []core.Limit{core.PerSecond(5).WithBurst(20)},
	}))
	byIP := httplimit.ByIP(core.TrustProxies("10.0.0.7"))
	return httplimit.New(limiter, httplimit.Join(byIP, httplimit.ByPath()),
		httplimit.WithSkip(func(r *http.Request) bool { return r.Method != http.MethodPost }),
		httplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, _ core.Result) {
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}),
	)(handler)
}
