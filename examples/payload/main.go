// A gin app where the body of a request sets its cost: /upload counts bytes, /items counts the objects
// of a JSON array. The app denies a request that lacks tokens before it does the work. Try:
//
//	go run ./examples/payload                        # buckets in this process
//	go run ./examples/payload -redis localhost:6379  # buckets shared through Redis
//
//	head -c 200000 /dev/zero >body.bin
//	curl -i --data-binary @body.bin localhost:8080/upload    # costs 196: a token for each KiB
//	curl -i -H 'Transfer-Encoding: chunked' --data-binary @body.bin localhost:8080/upload  # unknown length: the app counts the bytes, 196 tokens again
//	curl -i --data-binary @body.bin localhost:8080/upload    # 429, if sent within seconds: about 120 of 512 tokens were left
//	head -c 300000 /dev/zero | curl -i --data-binary @- localhost:8080/upload               # 413, costs nothing
//	curl -i -d '[{"id":1},{"id":2},{"id":3}]' localhost:8080/items                          # costs 3
//	curl -i -d '[{"id":1},' localhost:8080/items                                            # 400, costs nothing
//
// If the Content-Length is good enough, use the adapter's cost function instead. A body of unknown
// length then costs the whole Capacity:
//
//	ginlimit.WithCost(ginlimit.CostByContentLength(1024))
//
// A GraphQL server can count the fields of a query, or the n of "first: n", in the same way.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

const (
	maxBody  = 256 << 10 // bytes; larger bodies are answered 413
	maxItems = 100       // objects in one request. It is the Capacity too: a request that costs more could never pass
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
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("payload-example:"))
	}
	work := func(what string) { log.Printf("working hard on %s", what) }
	log.Printf("listening on http://%s", *addr)
	log.Fatal(newRouter(store, work).Run(*addr))
}

// newRouter returns the app; work stands for what is expensive about a request.
func newRouter(store core.Store, work func(what string)) *gin.Engine {
	upload := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "upload",                          // 1 token is 1 KiB
		Limits: []core.Limit{core.PerMinute(512)}, // at least maxBody
	}))
	items := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "items",
		Limits: []core.Limit{core.PerMinute(60).WithBurst(maxItems)},
	}))

	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())
	r.POST("/upload", ginlimit.New(upload, ginlimit.ByIP(),
		ginlimit.WithCost(costByBytes), ginlimit.OnError(badBody),
	), func(c *gin.Context) {
		n, err := io.Copy(io.Discard, c.Request.Body)
		if err != nil {
			badBody(c, bodyError{err}) // the client left halfway: what it declared stays charged
			return
		}
		work(fmt.Sprintf("%d bytes", n))
		left(c, gin.H{"bytes": n})
	})
	r.POST("/items", ginlimit.New(items, ginlimit.ByIP(),
		ginlimit.WithCost(costByObjects), ginlimit.OnError(badBody), ginlimit.OnDenied(denied),
	), func(c *gin.Context) {
		var list []struct {
			ID int `json:"id"`
		}
		if err := json.NewDecoder(c.Request.Body).Decode(&list); err != nil {
			badBody(c, bodyError{err})
			return
		}
		work(fmt.Sprintf("%d items", len(list)))
		left(c, gin.H{"items": len(list)})
	})
	return r
}

// costByBytes returns a token for each KiB, rounded up. It uses the declared length if there is one, so
// the app need not read a body that it denies: net/http reads no more bytes than were declared. It reads
// a body of unknown length first.
func costByBytes(c *gin.Context) (int64, error) {
	n := c.Request.ContentLength
	if n > maxBody {
		return 0, bodyError{&http.MaxBytesError{Limit: maxBody}}
	}
	if n < 0 {
		body, err := readBody(c)
		if err != nil {
			return 0, err
		}
		n = int64(len(body))
	}
	return max(1, (n+1023)/1024), nil // an empty body is a request too
}

// costByObjects returns a token for each object of the array. It keeps none of them, so it takes little
// time compared with the work. To limit how many bodies it reads, put a second limiter in front.
func costByObjects(c *gin.Context) (int64, error) {
	body, err := readBody(c)
	if err != nil {
		return 0, err
	}
	n, err := countObjects(body)
	if err != nil {
		return 0, bodyError{err}
	}
	return max(1, n), nil
}

// readBody reads the body once and puts it back for the handler.
func readBody(c *gin.Context) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxBody))
	if err != nil {
		return nil, bodyError{err}
	}
	c.Request.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// countObjects returns the length of a JSON array of objects.
func countObjects(body []byte) (n int64, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		return 0, errors.Join(errors.New("want a JSON array"), err)
	}
	for ; dec.More(); n++ {
		var object json.RawMessage
		if err := dec.Decode(&object); err != nil {
			return 0, err
		}
		if object[0] != '{' {
			return 0, fmt.Errorf("element %d is no object", n)
		}
	}
	if _, err := dec.Token(); err != nil { // the closing bracket
		return 0, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return 0, errors.New("want one JSON array and nothing after it")
	}
	return n, nil
}

// bodyError is an error in the request's body, not in the service.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

// badBody answers a request without a decision: 413 or 400 for a bad body, and otherwise the status
// that the middleware would have sent.
func badBody(c *gin.Context, err error) {
	var fault bodyError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		c.Header("Connection", "close") // instead of reading the rest
		c.AbortWithStatusJSON(http.StatusRequestEntityTooLarge, gin.H{"error": fmt.Sprintf("at most %d bytes", tooLarge.Limit)})
	case errors.As(err, &fault):
		c.AbortWithStatusJSON(http.StatusBadRequest, gin.H{"error": "unreadable body"})
	default:
		problem := adapter.ProblemOf(c.Request.Context(), err)
		c.Header("Content-Type", "application/problem+json")
		c.AbortWithStatusJSON(problem.Status, problem)
	}
}

// denied tells a batch that can never pass from one that may be sent again later.
func denied(c *gin.Context, res core.Result) {
	if res.RetryAfter == core.Never {
		c.AbortWithStatusJSON(http.StatusRequestEntityTooLarge, gin.H{"error": fmt.Sprintf("at most %d items at once", maxItems)})
		return
	}
	c.Header("Content-Type", "application/problem+json")
	c.AbortWithStatusJSON(http.StatusTooManyRequests, core.Problem(res))
}

func left(c *gin.Context, answer gin.H) {
	if res, ok := ginlimit.FromContext(c); ok {
		answer["cost"], answer["left"] = res.Cost, res.Remaining
	}
	c.JSON(http.StatusOK, answer)
}
