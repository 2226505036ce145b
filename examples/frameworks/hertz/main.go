package main

import (
	"context"
	"net/http"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/app/server"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/examples/frameworks/hertz/hertzlimit"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	key := middleware.Join[adapter.Request](adapter.ByIP(), adapter.ByRoute("use it behind the router"))
	h := server.New(server.WithHostPorts("localhost:8080"))
	h.Use(hertzlimit.New(limiter, key, adapter.Options[adapter.Request]{}))
	h.GET("/items/:id", item)
	h.Spin()
}

func item(_ context.Context, c *app.RequestContext) {
	res, _ := hertzlimit.FromContext(c)
	c.String(http.StatusOK, res.Key)
}
