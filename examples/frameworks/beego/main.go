package main

import (
	"net/http"

	"github.com/beego/beego/v2/server/web"
	"github.com/beego/beego/v2/server/web/context"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	web.Get("/items/:id", item)
	web.RunWithMiddleWares("localhost:8080", httplimit.New(limiter, httplimit.Join(httplimit.ByIP(), byRoute)))
}

func byRoute(r *http.Request) (string, error) {
	c := context.NewContext()
	c.Reset(nil, r)
	route, found := web.BeeApp.Handlers.FindRouter(c)
	if !found {
		return "route:", nil
	}
	return "route:" + route.GetPattern(), nil
}

func item(c *context.Context) {
	res, _ := httplimit.FromContext(c.Request.Context())
	_ = c.Output.Body([]byte(res.Key))
}
