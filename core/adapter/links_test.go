package adapter_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Modules that a program must link only if it imports a package that needs
// them.
const (
	gin      = "github.com/gin-gonic/gin"
	echo     = "github.com/labstack/echo/v4"
	echo5    = "github.com/labstack/echo/v5"
	chi      = "github.com/go-chi/chi/v5"
	fiber    = "github.com/gofiber/fiber/v2"
	fiber3   = "github.com/gofiber/fiber/v3"
	fasthttp = "github.com/valyala/fasthttp"
	yaml     = "github.com/goccy/go-yaml"

	prometheus = "github.com/prometheus/client_golang"
	otel       = "go.opentelemetry.io/otel"
	otelMetric = "go.opentelemetry.io/otel/metric"
	otelTrace  = "go.opentelemetry.io/otel/trace"
)

// testOnly are modules that only this module's tests may use.
var testOnly = []string{
	"github.com/dunglas/httpsfv", "pgregory.net/rapid", "github.com/stretchr/testify",
	"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/sdk/metric",
}

// ofRedis is what a program links besides if it keeps its limits in Redis: the
// client with what that needs, and the circuit breaker.
var ofRedis = []string{
	"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sys",
	"github.com/sony/gobreaker/v2",
}

// this is the module that all packages here are of.
const this = "github.com/tokenbucket-go/ratelimit"

// Every further module is a burden for its users, so it must be on the list.
func TestCoreLinksOnlyListedModules(t *testing.T) {
	for pkg, allowed := range map[string][]string{
		"core": nil, "core/storestats": nil, "core/middleware": nil, "core/adapter": nil, "core/redisstore": ofRedis,
	} {
		linked := modules(t, pkg)
		for _, m := range linked {
			if m != this && !slices.Contains(allowed, m) {
				t.Errorf("a program that imports %s links %s, which is not on the list", pkg, m)
			}
		}
		for _, m := range allowed {
			if !slices.Contains(linked, m) && m != "go.uber.org/atomic" && m != "golang.org/x/sys" {
				t.Errorf("the list is out of date: %s is not linked by %s", m, pkg)
			}
		}
	}
}

// A program that imports an adapter links the framework of that adapter, in its
// version, and no other framework.
func TestAdapterLinksOnlyItsOwnFramework(t *testing.T) {
	frameworks := []string{gin, echo, echo5, chi, fiber, fiber3, fasthttp, prometheus, otel, otelMetric, otelTrace, yaml}
	for _, p := range []struct {
		pkg  string
		want []string // of frameworks
	}{
		{"core", nil},
		{"core/adapter", nil},
		{"core/policyfile", []string{yaml}},
		{"ginlimit", []string{gin}},
		{"echolimit", []string{echo}},
		{"echolimit/v5", []string{echo5}},
		{"chilimit", []string{chi}},
		{"fiberlimit", []string{fiber, fasthttp}},
		{"fiberlimit/v3", []string{fiber3, fasthttp}},
		{"httplimit", nil},
		{"promlimit", []string{prometheus}},
		{"otellimit", []string{otel, otelMetric, otelTrace}},
	} {
		t.Run(p.pkg, func(t *testing.T) {
			linked := modules(t, p.pkg)
			for _, m := range ofRedis[:1] {
				if slices.Contains(linked, m) {
					t.Errorf("a program that imports %s links %s, though it may limit in memory", p.pkg, m)
				}
			}
			for _, f := range frameworks {
				if got, want := slices.Contains(linked, f), slices.Contains(p.want, f); got != want {
					t.Errorf("a program that imports %s links %s: %v, want %v", p.pkg, f, got, want)
				}
			}
			for _, f := range testOnly {
				if slices.Contains(linked, f) {
					t.Errorf("a program that imports %s links %s, which is for tests only", p.pkg, f)
				}
			}
		})
	}
	t.Run("core/adapter/adaptertest", func(t *testing.T) {
		linked := modules(t, "core/adapter/adaptertest")
		for _, f := range frameworks {
			if slices.Contains(linked, f) {
				t.Errorf("the suite links %s: it must be the adapter's choice", f)
			}
		}
	})
}

// modules returns the modules that a program links if it imports pkg of this
// module.
func modules(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}",
		"github.com/tokenbucket-go/ratelimit/"+pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	list := strings.Fields(string(out))
	slices.Sort(list)
	return slices.Compact(list)
}
