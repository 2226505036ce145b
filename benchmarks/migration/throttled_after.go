package migration

import (
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// ThrottledAfter limits each API key, on each path, to 20 requests a minute and bursts of 6.
func ThrottledAfter(handler http.Handler) (http.Handler, error) {
	limiter, err := core.NewLimiter(core.NewMemoryStore(core.WithMaxKeys(65536)), core.Policy{
		Name:    "api",
		Limits:  []core.Limit{core.PerMinute(20).WithBurst(6)}, // MaxBurst + 1
		Headers: core.HeadersLegacy,
	})
	if err != nil {
		return nil, err
	}
	key := httplimit.Join(httplimit.ByHeader("X-Api-Key"), httplimit.ByPath())
	return httplimit.New(limiter, key)(handler), nil
}
