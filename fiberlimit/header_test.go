package fiberlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// An app may have fasthttp keep the names of fields as they are sent. Names are case-insensitive all the same
// (RFC 9110, section 5.1), and no spelling may hide another: a proxy appends to the one it uses.
func TestFieldsAreFoundUnderAnySpelling(t *testing.T) {
	app := fiber.New(fiber.Config{DisableHeaderNormalizing: true})
	app.Get("/", func(c *fiber.Ctx) error {
		key, err := fiberlimit.ByHeader("X-Api-Key")(c)
		if err != nil {
			return err
		}
		ip, err := fiberlimit.ByIP(core.TrustProxies("0.0.0.0/8"))(c) // app.Test's peer is 0.0.0.0
		if err != nil {
			return err
		}
		return c.SendString(key + " " + ip)
	})
	for _, spelling := range []string{"X-Api-Key", "x-api-key", "X-API-KEY"} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header[spelling] = []string{"k"}
		req.Header["X-Forwarded-For"] = []string{"192.0.2.66"}  // the client's
		req.Header["x-forwarded-for"] = []string{"203.0.113.9"} // the proxy's
		res, err := app.Test(req)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 100)
		n, _ := res.Body.Read(body)
		if got, want := string(body[:n]), "header:x-api-key:k ip:203.0.113.9"; got != want {
			t.Errorf("sent as %s: %q, want %q", spelling, got, want)
		}
	}
}
