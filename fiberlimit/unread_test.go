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
	recovery "github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// An error handler that resets the response takes the end of the connection
// with it. What is left of the body is not read as requests all the same. A
// panic of OnDenied is no way around either.
func TestNothingReopensAConnectionWithAnUnreadBody(t *testing.T) {
	reset := func(c *fiber.Ctx) error {
		c.Response().Reset()
		return c.SendStatus(http.StatusTeapot)
	}
	for name, x := range map[string]struct {
		handle  fiber.ErrorHandler
		options []fiberlimit.Option
	}{
		"an error handler that resets the response": {handle: func(c *fiber.Ctx, _ error) error { return reset(c) }},
		"OnDenied that panics": {options: []fiberlimit.Option{
			fiberlimit.OnDenied(func(*fiber.Ctx, core.Result) error { panic("denied") }),
		}},
		"OnDenied that resets the response": {options: []fiberlimit.Option{
			fiberlimit.OnDenied(func(c *fiber.Ctx, _ core.Result) error { return reset(c) }),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(1))
			limittest.Use(t, limiter, "global:all", 1)
			app := fiber.New(fiber.Config{StreamRequestBody: true, DisableStartupMessage: true, ErrorHandler: x.handle})
			app.Use(recovery.New())
			app.Post("/", fiberlimit.New(limiter, fiberlimit.Global("all"), x.options...))
			var smuggled atomic.Int64
			app.Get("/free", func(*fiber.Ctx) error { smuggled.Add(1); return nil })
			conn, err := net.Dial("tcp", started(t, app.Listener))
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
