package fiberlimit_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

// An error handler that resets the response takes the end of the connection
// with it. What is left of the body is not read as requests all the same. A
// panic of OnDenied is no way around either.
func TestNothingReopensAConnectionWithAnUnreadBody(t *testing.T) {
	for name, x := range map[string]struct {
		handle fiber.ErrorHandler
		denied func(*fiber.Ctx, core.Result) error
	}{
		"an error handler that resets the response": {handle: func(c *fiber.Ctx, _ error) error {
			c.Response().Reset()
			return c.SendStatus(http.StatusTeapot)
		}},
		"OnDenied that panics": {denied: func(*fiber.Ctx, core.Result) error { panic("denied") }},
		"OnDenied that resets the response": {denied: func(c *fiber.Ctx, _ core.Result) error {
			c.Response().Reset()
			return c.SendStatus(http.StatusTeapot)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}))
			app := fiber.New(fiber.Config{StreamRequestBody: true, DisableStartupMessage: true, ErrorHandler: x.handle})
			options := []fiberlimit.Option{fiberlimit.WithCost(func(*fiber.Ctx) (int64, error) { return 2, nil })}
			if x.denied != nil {
				options = append(options, fiberlimit.OnDenied(x.denied))
			}
			app.Use(func(c *fiber.Ctx) (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = c.SendStatus(http.StatusInternalServerError)
					}
				}()
				return c.Next()
			})
			app.Post("/", fiberlimit.New(limiter, fiberlimit.Global("all"), options...), func(c *fiber.Ctx) error { return nil })
			var smuggled atomic.Int64
			app.Get("/free", func(*fiber.Ctx) error { smuggled.Add(1); return nil })
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			go func() { _ = app.Listener(l) }()
			t.Cleanup(func() { _ = app.Shutdown() })
			conn, err := net.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			body := strings.Repeat("x", 8<<10) + strings.Repeat("GET /free HTTP/1.1\r\nHost: app.test\r\n\r\n", 50)
			go func() {
				_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}()
			_, err = io.Copy(io.Discard, conn)
			if e, timeout := err.(net.Error); timeout && e.Timeout() {
				t.Error("the connection is not closed")
			}
			assert.Zero(t, smuggled.Load(), "requests in the body of a refused one reached a handler")
		})
	}
}
