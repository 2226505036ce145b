package migration

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// UluleBefore limits each client of each tenant to 10 requests a minute. Requests without X-Tenant are one tenant.
func UluleBefore(r *gin.Engine, rdb *redis.Client) error {
	if err := r.SetTrustedProxies([]string{"10.0.0.7"}); err != nil {
		return err
	}
	rate, err := limiter.NewRateFromFormatted("10-M")
	if err != nil {
		return err
	}
	store, err := ululeredis.NewStoreWithOptions(rdb, limiter.StoreOptions{Prefix: "shop:api"})
	if err != nil {
		return err
	}
	r.Use(ululegin.NewMiddleware(limiter.New(store, rate),
		ululegin.WithKeyGetter(func(c *gin.Context) string {
			return c.GetHeader("X-Tenant") + "|" + c.ClientIP()
		}),
		ululegin.WithLimitReachedHandler(func(c *gin.Context) {
			c.JSON(http.StatusTooManyRequests, gin.H{"error": "slow down"})
		}),
	))
	return nil
}
