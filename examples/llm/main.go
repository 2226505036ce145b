// A gateway in front of a language model. It limits requests and tokens a
// minute by API key, and tokens a minute and a month by key and by
// organisation, in one decision. A call is charged at first the most that it
// can take, and settled when the provider has said what it took. The provider
// is a fake in this process: it tells a story, a word at a time. Replace
// accountOf in call.go, policies.yaml and the provider; the rest can stay.
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/llm
//	ask() { curl -isN -H "Authorization: Bearer $1" -d "{\"prompt\": \"Tell me a story\", \"max_tokens\": $2}" localhost:8080/v1/generate; }
//	ask ann-secret 500           # charged 515, settled for the 4 tokens of the prompt and those of the story
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	_ "time/tzdata" // policies.yaml names a time zone

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

//go:embed policies.yaml
var policiesYAML []byte

// What follows is the same in all examples.

// main reads ADDR, where clients connect; ADMIN_ADDR, which clients must not
// reach; REDIS_URL; and TRUSTED_PROXIES, the addresses or ranges of proxies in
// front.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("llm-example:"))
		if err == nil {
			err = redis.Ping(ctx)
		}
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err) // else each replica would limit alone, and nobody would notice
		}
		defer redis.Close()
		store = redis
	}
	metrics := promlimit.New()
	prometheus.MustRegister(metrics)
	policies, err := policyfile.Load(bytes.NewReader(policiesYAML))
	if err != nil {
		log.Fatal(err)
	}
	upstream, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(upstream, provider(50*time.Millisecond))) }()
	model := model{url: "http://" + upstream.Addr().String(), within: 10 * time.Second, atMost: 5 * time.Minute}
	proxies := strings.Fields(strings.ReplaceAll(os.Getenv("TRUSTED_PROXIES"), ",", " "))
	handler := app(store, core.WithObserver(metrics.Observe), policies, model, proxies...)
	public := newServer(cmp.Or(os.Getenv("ADDR"), "localhost:8080"), handler)
	admin := newServer(cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"), promhttp.Handler())
	if err := serve(ctx, public, admin); err != nil {
		log.Fatal(err)
	}
}

// newServer bounds whatever a client could make large, or never finish.
func newServer(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: http.MaxBytesHandler(handler, 64<<10), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
}

// grace is how long requests may run on after SIGTERM.
var grace = 15 * time.Second

// serve serves until ctx ends, as it does by SIGTERM. It returns when all
// requests have ended. After grace it cancels those that still run, so that
// their handlers return and their slots come back.
func serve(ctx context.Context, servers ...*http.Server) error {
	requests, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, len(servers))
	for _, s := range servers {
		l, err := net.Listen("tcp", s.Addr)
		if err != nil {
			return err
		}
		log.Printf("listening on http://%s", l.Addr())
		s.BaseContext = func(net.Listener) context.Context { return requests }
		go func() { failed <- s.Serve(l) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	time.AfterFunc(grace, cancel)
	atMost, done := context.WithTimeout(context.Background(), grace+5*time.Second)
	defer done()
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Shutdown(atMost))
	}
	return errors.Join(errs...)
}
