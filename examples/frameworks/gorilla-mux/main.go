package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/gorilla/mux"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func main() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}))
	r := mux.NewRouter()
	r.Use(httplimit.New(limiter, httplimit.Join(httplimit.ByIP(), byRoute)))
	r.HandleFunc("/items/{id}", item)
	log.Fatal(http.ListenAndServe("localhost:8080", r))
}

func byRoute(r *http.Request) (string, error) {
	template, err := mux.CurrentRoute(r).GetPathTemplate()
	return "route:" + template, err
}

func item(w http.ResponseWriter, r *http.Request) {
	res, _ := httplimit.FromContext(r.Context())
	fmt.Fprintln(w, res.Key)
}
