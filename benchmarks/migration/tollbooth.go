package migration

import (
	"net/http"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// TollboothBefore limits each client, on each path, to 5 POST requests a second
// and bursts of 20.
func TollboothBefore(handler http.Handler) http.Handler {
	lmt := tollbooth.NewLimiter(5, nil).
		SetBurst(20).
		SetIPLookup(limiter.IPLookup{Name: "X-Forwarded-For", IndexFromRight: 0}).
		SetMethods([]string{"POST"}).
		SetMessage("slow down")
	return tollbooth.HTTPMiddleware(lmt)(handler)
}

// TollboothAfter limits each client, on each path, to 5 POST requests a second
// and bursts of 20.
func TollboothAfter(handler http.Handler) http.Handler {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "posts", Limits: []core.Limit{core.PerSecond(5).WithBurst(20)},
	}))
	key := httplimit.Join(httplimit.ByIP(core.TrustProxies("10.0.0.7")), httplimit.ByPath())
	return httplimit.New(limiter, key,
		httplimit.WithSkip(func(r *http.Request) bool { return r.Method != http.MethodPost }),
		httplimit.OnDenied(func(w http.ResponseWriter, _ *http.Request, _ core.Result) {
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}),
	)(handler)
}
