package main

import (
	"os"
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

func TestAHostileClient(t *testing.T) {
	hostile.RunSearch(t, func(store core.Store) hostile.Server { return newServer("", app(store, core.WithObserver(nil))) })
}

func TestDeploy(t *testing.T) { hostile.DeploySearch(t) }
