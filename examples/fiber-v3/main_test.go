package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

func TestMain(m *testing.M) {
	hostile.Main(m, main)
}

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/search", strings.NewReader(`{"text": "tea"}`))
	r.Header.Set("X-Api-Key", key)
	return r
}

// server serves app with timeouts that a test can wait for.
type server struct{ *fiber.App }

func (s server) Serve(l net.Listener) error {
	for name, timeout := range map[string]*time.Duration{
		"ReadTimeout": &s.Server().ReadTimeout, "WriteTimeout": &s.Server().WriteTimeout, "IdleTimeout": &s.Server().IdleTimeout,
	} {
		if *timeout == 0 {
			panic("the server has no " + name)
		}
		*timeout = 2 * time.Second
	}
	return s.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
}

func (s server) Close() error { return s.ShutdownWithTimeout(time.Second) }

func none() core.LimiterOption { return core.WithObserver(nil) }

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		return hostile.App{
			Server: server{app(store, none())}, Request: request,
			Attacker: "ann-secret", Victim: "bob-secret", PerKey: 10, PerAddress: 100,
		}
	})
}

func TestDeploy(t *testing.T) {
	hostile.Deploy(t, func() *http.Request { return request("ann-secret") })
}
