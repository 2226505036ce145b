// A gin app with two limits: 5 requests a minute for every client address, and a search that also costs 3 tokens of
// every user. Try:
//
//	go run ./examples/gin                        # buckets in this process
//	go run ./examples/gin -redis localhost:6379  # buckets shared through Redis
//	curl -i localhost:8080/
//	curl -i -H 'X-User: ann' localhost:8080/search
package main

import (
	"flag"
	"log"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the buckets in this process")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("gin-example:"))
	}
	perIP := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "per-ip",
		Limits: []core.Limit{core.PerMinute(5)},
	}))
	search := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "search",
		Limits: []core.Limit{core.PerMinute(30).WithBurst(10), core.PerDay(1000)},
	}))

	r := gin.New()
	r.Use(gin.Recovery())
	r.Use(ginlimit.New(perIP, ginlimit.ByIP())) // also in front of the search: a client can make up users, and each is a full bucket
	r.GET("/", func(c *gin.Context) {
		c.String(http.StatusOK, "hello\n")
	})
	r.GET("/search", ginlimit.New(search, byUser,
		ginlimit.WithCost(func(*gin.Context) (int64, error) { return 3, nil }),
		ginlimit.OnDenied(func(c *gin.Context, res core.Result) {
			c.JSON(http.StatusTooManyRequests, gin.H{"error": "slow down", "retry_after_seconds": res.RetryAfter.Seconds()})
		}),
	), func(c *gin.Context) {
		res, _ := ginlimit.FromContext(c)
		c.String(http.StatusOK, "found it; %d tokens left\n", res.Remaining)
	})

	log.Printf("listening on http://%s", *addr)
	log.Fatal(r.Run(*addr))
}

// byUser is a key function of our own. A login middleware would have checked who it is.
func byUser(c *gin.Context) (string, error) {
	user := c.GetHeader("X-User")
	if user == "" {
		return "", core.ErrNoKey // answered 400
	}
	return core.JoinKey("user", user), nil
}
