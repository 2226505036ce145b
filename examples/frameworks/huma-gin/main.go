package main

import (
	"context"
	"log"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	r := gin.New()
	r.Use(ginlimit.New(limiter, ginlimit.Join(ginlimit.ByIP(), ginlimit.ByRoute())))
	api := humagin.New(r, huma.DefaultConfig("items", "1.0.0"))
	api.UseMiddleware(passResult)
	huma.Get(api, "/items/{id}", item)
	log.Fatal(r.Run("localhost:8080"))
}

type resultKey struct{}

// passResult is for handlers, because huma gives them no *gin.Context.
func passResult(c huma.Context, next func(huma.Context)) {
	res, _ := ginlimit.FromContext(humagin.Unwrap(c))
	next(huma.WithValue(c, resultKey{}, res))
}

func item(ctx context.Context, _ *struct{}) (*struct{ Body string }, error) {
	res, _ := ctx.Value(resultKey{}).(core.Result)
	return &struct{ Body string }{res.Key}, nil
}
