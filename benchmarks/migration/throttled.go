package migration

import (
	"net/http"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// ThrottledBefore limits each API key, on each path, to 20 requests a minute
// and bursts of 6.
func ThrottledBefore(handler http.Handler) (http.Handler, error) {
	store, err := memstore.NewCtx(65536)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerMin(20), MaxBurst: 5}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	middleware := throttled.HTTPRateLimiterCtx{
		RateLimiter: limiter,
		VaryBy:      &throttled.VaryBy{Headers: []string{"X-Api-Key"}, Path: true},
	}
	return middleware.RateLimit(handler), nil
}

// ThrottledAfter limits each API key, on each path, to 20 requests a minute and
// bursts of 6.
func ThrottledAfter(handler http.Handler) (http.Handler, error) {
	limiter, err := core.NewLimiter(core.NewMemoryStore(core.WithMaxKeys(65536)), core.Policy{
		Name:    "api",
		Limits:  []core.Limit{core.PerMinute(20).WithBurst(6)}, // MaxBurst + 1
		Headers: core.HeadersLegacy,
	})
	if err != nil {
		return nil, err
	}
	return httplimit.New(limiter, httplimit.Join(httplimit.ByHeader("X-Api-Key"), httplimit.ByPath()))(handler), nil
}
