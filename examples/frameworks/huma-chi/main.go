package main

import (
	"context"
	"log"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/tokenbucket-go/ratelimit/chilimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	r := chi.NewRouter()
	r.Use(chilimit.New(limiter, chilimit.Join(chilimit.ByIP(), chilimit.ByRoute())))
	api := humachi.New(r, huma.DefaultConfig("items", "1.0.0"))
	huma.Get(api, "/items/{id}", item)
	log.Fatal(http.ListenAndServe("localhost:8080", r))
}

func item(ctx context.Context, _ *struct{}) (*struct{ Body string }, error) {
	res, _ := chilimit.FromContext(ctx)
	return &struct{ Body string }{res.Key}, nil
}
