package main

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

func TestMain(m *testing.M) { hostile.Main(m, main) }

func TestAHostileClient(t *testing.T) {
	hostile.RunSearch(t, func(store core.Store) hostile.Server { return newServer("", app(store, core.WithObserver(nil))) })
}

func TestDeploy(t *testing.T) { hostile.DeploySearch(t) }
