package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/julienschmidt/httprouter"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	r := httprouter.New()
	limit := httplimit.New(limiter, httplimit.Join(httplimit.ByIP(), httplimit.Global("/items/:id")))
	r.Handler(http.MethodGet, "/items/:id", limit(http.HandlerFunc(item)))
	log.Fatal(http.ListenAndServe("localhost:8080", r))
}

func item(w http.ResponseWriter, r *http.Request) {
	res, _ := httplimit.FromContext(r.Context())
	fmt.Fprintln(w, res.Key)
}
