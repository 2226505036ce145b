package migration

import (
	"net/http"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// TollboothBefore is didip/tollbooth behind one proxy.
func TollboothBefore(handler http.Handler) http.Handler {
	lmt := tollbooth.NewLimiter(5, &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour}).
		SetBurst(20).
		SetIPLookup(limiter.IPLookup{Name: "X-Forwarded-For", IndexFromRight: 0}).
		SetMethods([]string{"POST"})
	return tollbooth.HTTPMiddleware(lmt)(handler)
}

// TollboothAfter is the same with this library.
func TollboothAfter(handler http.Handler) http.Handler {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "posts", Limits: []core.Limit{core.PerSecond(5).WithBurst(20)},
	}))
	byIP := httplimit.ByIP(core.TrustProxies("10.0.0.7"))
	return httplimit.New(limiter, httplimit.Join(byIP, httplimit.ByPath()),
		httplimit.WithSkip(func(r *http.Request) bool { return r.Method != http.MethodPost }),
	)(handler)
}
