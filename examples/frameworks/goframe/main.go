package main

import (
	"net/http"

	"github.com/gogf/gf/v2/net/ghttp"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	s := ghttp.GetServer()
	s.Use(middleware(httplimit.New(limiter, httplimit.Join(httplimit.ByIP(), byRoute))))
	s.BindHandler("/items/{id}", item)
	s.SetAddr("localhost:8080")
	s.Run()
}

func middleware(limit func(http.Handler) http.Handler) ghttp.HandlerFunc {
	return func(r *ghttp.Request) {
		limit(http.HandlerFunc(func(w http.ResponseWriter, limited *http.Request) {
			r.Request = limited
			r.Middleware.Next()
			w.WriteHeader(r.Response.Status) // for WithRefund and WithSettle
		})).ServeHTTP(r.Response.BufferWriter, r.Request)
	}
}

func byRoute(r *http.Request) (string, error) {
	handler := ghttp.RequestFromCtx(r.Context()).GetServeHandler()
	if handler == nil {
		return "route:", nil
	}
	return "route:" + handler.Handler.Router.Uri, nil
}

func item(r *ghttp.Request) {
	res, _ := httplimit.FromContext(r.Context())
	r.Response.Write(res.Key)
}
