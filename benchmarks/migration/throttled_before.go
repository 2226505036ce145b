package migration

import (
	"net/http"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// ThrottledBefore limits each API key, on each path, to 20 requests a minute and bursts of 6.
func ThrottledBefore(handler http.Handler) (http.Handler, error) {
	store, err := memstore.NewCtx(65536)
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerMin(20),
		MaxBurst: 5,
	})
	if err != nil {
		return nil, err
	}
	middleware := throttled.HTTPRateLimiterCtx{
		RateLimiter: limiter,
		VaryBy:      &throttled.VaryBy{Headers: []string{"X-Api-Key"}, Path: true},
	}
	return middleware.RateLimit(handler), nil
}
