package adapter_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// this is the module that all packages here are of.
const this = "github.com/tokenbucket-go/ratelimit"

// Every further module is a burden for the users of core, so it must be on the
// list.
func TestCoreLinksOnlyListedModules(t *testing.T) {
	for _, pkg := range []string{"core", "core/storestats", "core/middleware", "core/adapter"} {
		assert.Equal(t, []string{this}, modules(t, pkg), pkg)
	}
	assert.Subset(t, []string{
		this, "github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "github.com/sony/gobreaker/v2",
		"go.uber.org/atomic", "golang.org/x/sys", // with some versions of go-redis
	}, modules(t, "core/redisstore"))
}

// A program that imports an adapter links the framework of that adapter, in its
// version, and no other framework, neither Redis, as it may limit in memory, nor
// what is for tests only.
func TestAdapterLinksOnlyItsOwnFramework(t *testing.T) {
	ofPackages := map[string][]string{
		"core/policyfile":          {"github.com/goccy/go-yaml"},
		"ginlimit":                 {"github.com/gin-gonic/gin"},
		"echolimit":                {"github.com/labstack/echo/v4"},
		"echolimit/v5":             {"github.com/labstack/echo/v5"},
		"chilimit":                 {"github.com/go-chi/chi/v5"},
		"fiberlimit":               {"github.com/gofiber/fiber/v2", "github.com/valyala/fasthttp"},
		"fiberlimit/v3":            {"github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp"},
		"httplimit":                nil,
		"promlimit":                {"github.com/prometheus/client_golang"},
		"otellimit":                {"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace"},
		"core/adapter/adaptertest": {"github.com/dunglas/httpsfv"},
	}
	known := []string{
		"github.com/redis/go-redis/v9", "pgregory.net/rapid", "github.com/stretchr/testify", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/sdk/metric",
	}
	for _, own := range ofPackages {
		known = append(known, own...)
	}
	for pkg, own := range ofPackages {
		linked := slices.DeleteFunc(modules(t, pkg), func(m string) bool { return !slices.Contains(known, m) })
		assert.ElementsMatch(t, own, linked, pkg)
	}
}

// modules returns the modules that a program links if it imports pkg of this
// module.
func modules(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", this+"/"+pkg).Output()
	require.NoError(t, err, pkg)
	list := strings.Fields(string(out))
	slices.Sort(list)
	return slices.Compact(list)
}
