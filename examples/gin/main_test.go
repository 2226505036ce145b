package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

func TestMain(m *testing.M) {
	if os.Getenv("GIN_MODE") == "" {
		gin.SetMode(gin.TestMode)
	}
	hostile.Main(m, main)
}

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/search", strings.NewReader(`{"text": "tea"}`))
	r.Header.Set("X-Api-Key", key)
	return r
}

func none() core.LimiterOption { return core.WithObserver(nil) }

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		return hostile.App{
			Server: newServer("", app(store, none())), Request: request,
			Attacker: "ann-secret", Victim: "bob-secret", PerKey: 10, PerAddress: 100,
		}
	})
}

func TestDeploy(t *testing.T) {
	hostile.Deploy(t, func() *http.Request { return request("ann-secret") })
}
