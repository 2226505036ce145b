package main

import (
	"fmt"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/zeromicro/go-zero/core/conf"
	"github.com/zeromicro/go-zero/rest"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	var c rest.RestConf
	if err := conf.FillDefault(&c); err != nil {
		panic(err)
	}
	c.Host, c.Port = "localhost", 8080
	server := rest.MustNewServer(c)
	route := rest.Route{Method: http.MethodGet, Path: "/items/:id", Handler: item}
	limit := rest.ToMiddleware(httplimit.New(limiter, httplimit.Join(httplimit.ByIP(), httplimit.Global(route.Path))))
	server.AddRoutes(rest.WithMiddleware(limit, route))
	server.Start()
}

func item(w http.ResponseWriter, r *http.Request) {
	res, _ := httplimit.FromContext(r.Context())
	fmt.Fprintln(w, res.Key)
}
