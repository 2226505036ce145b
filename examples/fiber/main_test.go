package main

import (
	"net"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

func TestMain(m *testing.M) { hostile.Main(m, main) }

// server is an app as a server with timeouts.
type server struct{ *fiber.App }

func (s server) Serve(l net.Listener) error { return s.Listener(l) }
func (s server) Close() error               { return s.ShutdownWithTimeout(time.Second) }
func (s server) Timeouts() map[string]*time.Duration {
	f := s.Server()
	return map[string]*time.Duration{"ReadTimeout": &f.ReadTimeout, "WriteTimeout": &f.WriteTimeout, "IdleTimeout": &f.IdleTimeout}
}

func TestAHostileClient(t *testing.T) {
	hostile.RunSearch(t, func(store core.Store) hostile.Server { return server{app(store, core.WithObserver(nil))} })
}

func TestDeploy(t *testing.T) { hostile.DeploySearch(t) }
