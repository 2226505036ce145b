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

// UluleBefore is ulule/limiter on gin and Redis.
func UluleBefore(r *gin.Engine, rdb *redis.Client) error {
	rate, err := limiter.NewRateFromFormatted("100-M")
	if err != nil {
		return err
	}
	store, err := ululeredis.NewStore(rdb)
	if err != nil {
		return err
	}
	r.Use(ululegin.NewMiddleware(limiter.New(store, rate)))
	return nil
}

// UluleAfter is the same with this library.
func UluleAfter(r *gin.Engine, rdb *redis.Client) error {
	limiter, err := core.NewLimiter(redisstore.New(rdb), core.Policy{
		Name:    "api",
		Limits:  []core.Limit{core.PerMinute(100)},
		Headers: core.HeadersLegacy,
	})
	if err != nil {
		return err
	}
	r.Use(ginlimit.New(limiter, ginlimit.ByIP(core.TrustProxies("10.0.0.0/8"))))
	return nil
}
