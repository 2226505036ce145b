package migration

import (
	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

// UluleBefore limits each client of each tenant to 10 requests an hour.
func UluleBefore(r *gin.Engine, rdb *redis.Client) error {
	if err := r.SetTrustedProxies([]string{"10.0.0.7"}); err != nil {
		return err
	}
	rate, err := limiter.NewRateFromFormatted("10-H")
	if err != nil {
		return err
	}
	store, err := ululeredis.NewStoreWithOptions(rdb, limiter.StoreOptions{Prefix: "shop:api"})
	if err != nil {
		return err
	}
	r.Use(ululegin.NewMiddleware(limiter.New(store, rate), ululegin.WithKeyGetter(func(c *gin.Context) string {
		return c.GetHeader("X-Tenant") + "|" + c.ClientIP()
	})))
	return nil
}

// UluleAfter limits each client of each tenant to 10 requests an hour. Requests
// without X-Tenant are one tenant.
func UluleAfter(r *gin.Engine, rdb *redis.Client) error {
	limit, err := core.ParseLimit("10/hour")
	if err != nil {
		return err
	}
	limiter, err := core.NewLimiter(redisstore.New(rdb, redisstore.WithPrefix("shop:")), core.Policy{
		Name: "api", Limits: []core.Limit{limit}, Headers: core.HeadersLegacy,
	})
	if err != nil {
		return err
	}
	tenant := ginlimit.FirstOf(ginlimit.ByHeader("X-Tenant"), ginlimit.Global("no tenant"))
	r.Use(ginlimit.New(limiter, ginlimit.Join(tenant, ginlimit.ByIP(core.TrustProxies("10.0.0.7")))))
	return nil
}
