package fiberlimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

type tenantCtx struct {
	fiber.DefaultCtx
}

func (c *tenantCtx) Tenant() string { return c.Get("Tenant") }

// withTenants returns an app with a context of its own.
func withTenants(config fiber.Config) *fiber.App {
	return fiber.NewWithCustomCtx(func(app *fiber.App) fiber.CustomCtx {
		return &tenantCtx{DefaultCtx: *fiber.NewDefaultCtx(app)}
	}, config)
}

// wantOwnTokens checks that each tenant has one token.
func wantOwnTokens(t *testing.T, app *fiber.App) {
	t.Helper()
	app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
	for _, want := range []struct {
		tenant string
		status int
	}{{"a", 200}, {"b", 200}, {"a", 429}} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("Tenant", want.tenant)
		res, err := app.Test(req, fiber.TestConfig{})
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, want.status, res.StatusCode, want.tenant)
	}
}

// The user's functions get the app's own context type.
func TestFunctionsGetTheAppsOwnContext(t *testing.T) {
	app := withTenants(fiber.Config{})
	refunds := 0
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(1))
	app.Use(fiberlimit.New(limiter, func(c fiber.Ctx) (string, error) {
		return core.JoinKey("tenant", c.(*tenantCtx).Tenant()), nil
	}, fiberlimit.WithRefund(func(c fiber.Ctx, _ int) bool {
		if c.(*tenantCtx).Tenant() == "a" {
			refunds++
		}
		return false
	})))
	wantOwnTokens(t, app)
	assert.Equal(t, 1, refunds)
}

// ByContextValue finds a value under a key of a custom type, in Locals and in
// the request's context.
func TestByContextValueFindsKeysOfCustomTypes(t *testing.T) {
	type userKey struct{}
	for place, leave := range map[string]func(c fiber.Ctx, user string){
		"Locals":       func(c fiber.Ctx, user string) { c.Locals(userKey{}, user) },
		"fiber.Locals": func(c fiber.Ctx, user string) { fiber.Locals(c, userKey{}, user) },
		"SetContext":   func(c fiber.Ctx, user string) { c.SetContext(context.WithValue(c.Context(), userKey{}, user)) },
	} {
		t.Run(place, func(t *testing.T) {
			limiter := limittest.Limiter(t, core.NewMemoryStore(), "test", core.PerDay(1))
			app := fiber.New()
			app.Use(func(c fiber.Ctx) error {
				leave(c, c.Get("Tenant"))
				return c.Next()
			}, fiberlimit.New(limiter, fiberlimit.ByContextValue(userKey{})))
			wantOwnTokens(t, app)
		})
	}
}
