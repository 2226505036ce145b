package main

import (
	"context"
	"log"
	"net/http"

	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"github.com/gorilla/mux"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	server := khttp.NewServer(khttp.Address("localhost:8080"))
	r := server.Route("/", httplimit.New(limiter, httplimit.Join(httplimit.ByIP(), byRoute)))
	r.GET("/items/{id}", item)
	log.Fatal(server.Start(context.Background()))
}

func byRoute(r *http.Request) (string, error) {
	template, err := mux.CurrentRoute(r).GetPathTemplate()
	return "route:" + template, err
}

func item(c khttp.Context) error {
	res, _ := httplimit.FromContext(c)
	return c.String(http.StatusOK, res.Key)
}
