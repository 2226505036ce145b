package fiberlimit_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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

// The app reads a field under the one spelling it asks for. A client that sends another one besides must not be taken
// for somebody else by the limiter: it is refused, whichever comes first.
func TestAFieldOfTwoSpellingsIsRefused(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(3)}}))
	app := fiber.New(fiber.Config{DisableHeaderNormalizing: true, DisableStartupMessage: true})
	app.Get("/", fiberlimit.New(limiter, fiberlimit.FirstOf(fiberlimit.ByHeader("X-Api-Key"), fiberlimit.ByIP())), func(c *fiber.Ctx) error {
		return c.SendString(c.Get("X-Api-Key"))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = app.Listener(listener) }()
	defer func() { _ = app.Shutdown() }()
	send := func(fields ...string) (status int) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: app.test\r\n%s\r\n\r\n", strings.Join(fields, "\r\n"))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	for i := range 10 {
		random := fmt.Sprint("random-", i)
		for _, fields := range [][]string{
			{"x-api-key: " + random, "X-Api-Key: valid"}, {"X-Api-Key: valid", "x-api-key: " + random}, {"X-Api-Key: valid", "X-Api-Key: " + random},
		} {
			if status := send(fields...); status != http.StatusBadRequest {
				t.Fatalf("%q was answered %d, want 400", fields, status)
			}
		}
	}
	for i, want := range []int{200, 200, 200, 429} {
		if status := send([]string{"X-Api-Key: valid", "x-api-key: valid", "X-API-KEY: valid"}[i%3]); status != want {
			t.Errorf("request %d with the valid key alone was answered %d, want %d", i, status, want)
		}
	}
}
