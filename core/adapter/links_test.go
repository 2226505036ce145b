package adapter_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What a program must link only if it asked for it.
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

// never is for this module's own tests.
var never = []string{
	"github.com/dunglas/httpsfv", "pgregory.net/rapid", "github.com/stretchr/testify",
	"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/sdk/metric",
}

// ofCore is all that a program may link which uses core alone: Redis' client with what it needs, and the
// circuit breaker.
var ofCore = []string{
	"github.com/tokenbucket-go/ratelimit",
	"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sys",
	"github.com/sony/gobreaker/v2",
}

// TestCoreLinks: a module more is a burden for every user, so it must be on the list.
func TestCoreLinks(t *testing.T) {
	for _, pkg := range []string{"core", "core/adapter"} {
		linked := modules(t, pkg)
		for _, m := range linked {
			if !slices.Contains(ofCore, m) {
				t.Errorf("a program that imports %s links %s, which is not on the list", pkg, m)
			}
		}
	}
}

// TestLinks: whoever imports one package of this module gets the framework of that package, in
// its version, and no other.
func TestLinks(t *testing.T) {
	frameworks := []string{gin, echo, echo5, chi, fiber, fiber3, fasthttp, prometheus, otel, otelMetric, otelTrace, yaml}
	for _, p := range []struct {
		pkg  string
		want []string // of frameworks
	}{
		{"core", nil},
		{"core/adapter", nil},
		{"core/policyfile", []string{yaml}},
		{"ginlimit", []string{gin, yaml}}, // gin binds YAML bodies with it
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
			if !slices.Contains(linked, "github.com/redis/go-redis/v9") {
				t.Fatalf("the premise: go-redis must be among the modules of %s: %q", p.pkg, linked)
			}
			for _, f := range frameworks {
				if got, want := slices.Contains(linked, f), slices.Contains(p.want, f); got != want {
					t.Errorf("a program that imports %s links %s: %v, want %v", p.pkg, f, got, want)
				}
			}
			for _, f := range never {
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

// modules are the modules that a program links which imports a package of this module.
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
