package migration

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

// UluleAfter limits each client of each tenant to 10 requests a minute. Requests without X-Tenant are one tenant.
func UluleAfter(r *gin.Engine, rdb *redis.Client) error {
	limit, err := core.ParseLimit("10/min")
	if err != nil {
		return err
	}
	limiter, err := core.NewLimiter(redisstore.New(rdb, redisstore.WithPrefix("shop:")), core.Policy{
		Name:    "api",
		Limits:  []core.Limit{limit},
		Headers: core.HeadersLegacy,
	})
	if err != nil {
		return err
	}
	tenant := ginlimit.FirstOf(ginlimit.ByHeader("X-Tenant"), ginlimit.Global("no tenant"))
	client := ginlimit.ByIP(core.TrustProxies("10.0.0.7"))
	r.Use(ginlimit.New(limiter, ginlimit.Join(tenant, client),
		ginlimit.OnDenied(func(c *gin.Context, _ core.Result) {
			c.JSON(http.StatusTooManyRequests, gin.H{"error": "slow down"})
		}),
	))
	return nil
}
