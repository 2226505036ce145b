// A gin app with an export that takes seconds: at most five at once for all, and one per user. Slots are shared through Redis if
// REDIS_URL is set. They come back when an export is over, however it ends. Try:
//
//	go run ./examples/export                                    # slots in this process
//	REDIS_URL=redis://localhost:6379 go run ./examples/export   # slots shared by all processes
//
//	curl -N -H 'X-User: ann' localhost:8080/export &            # takes five seconds
//	curl -i -H 'X-User: ann' localhost:8080/export              # 429: ann has an export already
//	for u in b c d e; do curl -sN -H "X-User: $u" localhost:8080/export & done
//	curl -i -H 'X-User: bob' localhost:8080/export              # 429: five exports are at work
//
// For uploads in fiber set StreamRequestBody and a small BodyLimit: without them fiber reads the whole body before the limiter decides.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	takes := flag.Duration("takes", 5*time.Second, "how long an export takes")
	flag.Parse()

	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		store = core.Must(redisstore.Open(url, redisstore.WithPrefix("export-example:")))
	}
	log.Printf("listening on http://%s", *addr)
	log.Fatal(newApp(store, *takes).Run(*addr))
}

const rows = 10

// newApp returns the app. An export takes so long.
func newApp(store core.Store, takes time.Duration) *gin.Engine {
	slots := func(policy string, n int) *core.Limiter {
		// The middleware holds the slot of a long export. MaxHold frees the slots of a process that died.
		return core.Must(core.NewLimiter(store, core.Policy{Name: policy, Limits: []core.Limit{core.InFlight(n).WithName(policy).WithMaxHold(30 * time.Second)}}))
	}
	user, all := slots("exports-of-user", 1), slots("exports", 5)

	r := gin.New()
	r.GET("/export",
		// Together: a user who has an export already takes no slot from the others.
		ginlimit.NewTogether([]ginlimit.Rule{{Limiter: user, Key: ginlimit.ByHeader("X-User")}, {Limiter: all, Key: ginlimit.Global("exports")}},
			ginlimit.OnDenied(func(c *gin.Context, res core.Result) {
				why := "Five exports are at work. Try again soon."
				if !res.Parts[0].Allowed { // the part of the first rule
					why = "You have an export at work already. Try again when it is over."
				}
				c.String(http.StatusTooManyRequests, "%s\n", why)
			})),
		func(c *gin.Context) { export(c, takes) })
	return r
}

// export streams rows until all are sent, or the client has gone.
func export(c *gin.Context, takes time.Duration) {
	c.Header("Content-Type", "text/csv")
	for i := range rows {
		_, _ = fmt.Fprintf(c.Writer, "%d,%s\n", i+1, cmp.Or(c.GetHeader("X-User"), "nobody"))
		c.Writer.Flush()
		select {
		case <-time.After(takes / rows):
		case <-c.Request.Context().Done():
			return
		}
	}
}
