package fiberlimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
)

type tenantCtx struct {
	fiber.DefaultCtx
}

func (c *tenantCtx) Tenant() string { return c.Get("Tenant") }

// The user's functions and the handlers behind the limiter get the app's own
// context type.
func TestFunctionsGetTheAppsOwnContext(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(1)}}))
	app := fiber.NewWithCustomCtx(func(app *fiber.App) fiber.CustomCtx {
		return &tenantCtx{DefaultCtx: *fiber.NewDefaultCtx(app)}
	})
	refunds := 0
	app.Use(fiberlimit.New(limiter, func(c fiber.Ctx) (string, error) {
		return core.JoinKey("tenant", c.(*tenantCtx).Tenant()), nil
	}, fiberlimit.WithRefund(func(c fiber.Ctx, _ int) bool {
		if c.(*tenantCtx).Tenant() == "a" {
			refunds++
		}
		return false
	})))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString(c.(*tenantCtx).Tenant()) })
	for _, want := range []struct {
		tenant string
		status int
	}{{"a", 200}, {"b", 200}, {"a", 429}} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("Tenant", want.tenant)
		res, err := app.Test(req, fiber.TestConfig{})
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want.status {
			t.Errorf("tenant %s got %d, want %d", want.tenant, res.StatusCode, want.status)
		}
	}
	if refunds != 1 {
		t.Errorf("WithRefund was called %d times with the app's own context, want once", refunds)
	}
}

// ByContextValue finds a value under a key of a custom type, in Locals and in
// the request's context.
func TestByContextValueFindsKeysOfCustomTypes(t *testing.T) {
	type userKey struct{}
	for _, place := range []struct {
		name  string
		leave func(c fiber.Ctx, user string)
	}{
		{"Locals", func(c fiber.Ctx, user string) { c.Locals(userKey{}, user) }},
		{"fiber.Locals", func(c fiber.Ctx, user string) { fiber.Locals(c, userKey{}, user) }},
		{"both, as fiber.StoreInContext of fiber v3.1 does", func(c fiber.Ctx, user string) {
			c.Locals(userKey{}, user)
			c.SetContext(context.WithValue(c.Context(), userKey{}, user))
		}},
		{"SetContext", func(c fiber.Ctx, user string) {
			c.SetContext(context.WithValue(c.Context(), userKey{}, user))
		}},
	} {
		t.Run(place.name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(1)}}))
			app := fiber.New()
			app.Use(func(c fiber.Ctx) error {
				place.leave(c, c.Get("User"))
				return c.Next()
			}, fiberlimit.New(limiter, fiberlimit.ByContextValue(userKey{})))
			app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
			for _, want := range []struct {
				user   string
				status int
			}{{"ann", 200}, {"bob", 200}, {"ann", 429}} {
				req := httptest.NewRequest(http.MethodGet, "/", nil)
				req.Header.Set("User", want.user)
				res, err := app.Test(req, fiber.TestConfig{})
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != want.status {
					t.Errorf("%s got %d, want %d", want.user, res.StatusCode, want.status)
				}
			}
		})
	}
}
