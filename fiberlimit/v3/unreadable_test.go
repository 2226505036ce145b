package fiberlimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
)

// Fiber v3 runs middleware for connections that send no valid request, and then
// answers with the error handler. They take no token, are not refunded, and get
// no other status, with fiber's own context and with one of the app.
func TestConnectionsWithoutAValidRequestTakeNoToken(t *testing.T) {
	for name, build := range map[string]func(fiber.Config) *fiber.App{
		"fiber's context": func(config fiber.Config) *fiber.App { return fiber.New(config) },
		"a context of the app": func(config fiber.Config) *fiber.App {
			return fiber.NewWithCustomCtx(func(app *fiber.App) fiber.CustomCtx {
				return &tenantCtx{DefaultCtx: *fiber.NewDefaultCtx(app)}
			}, config)
		},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
			var refunds atomic.Int64
			serve := func(readTimeout time.Duration) (addr string) {
				app := build(fiber.Config{ReadTimeout: readTimeout, BodyLimit: 10})
				app.Use(fiberlimit.New(limiter, fiberlimit.Global("all"), fiberlimit.WithRefund(func(fiber.Ctx, int) bool {
					refunds.Add(1)
					return false
				})))
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				go func() { _ = app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
				t.Cleanup(func() { _ = app.Shutdown() })
				return l.Addr().String()
			}
			patient, impatient := serve(time.Minute), serve(100*time.Millisecond)
			for _, x := range []struct {
				text   string
				status int
			}{
				{"", http.StatusRequestTimeout},
				{"GET / HTTP/1.1\r\n", http.StatusRequestTimeout},
				{"GET / HTTP/1.1\r\nno colon\r\n\r\n", http.StatusBadRequest},
				{"POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 99\r\n\r\n", http.StatusRequestEntityTooLarge},
				{"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 10_000) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
			} {
				addr := patient
				if x.status == http.StatusRequestTimeout {
					addr = impatient
				}
				conn, err := net.Dial("tcp", addr)
				require.NoError(t, err)
				_, err = io.WriteString(conn, x.text)
				require.NoError(t, err)
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err, "%.50q", x.text)
				_ = res.Body.Close()
				_ = conn.Close()
				assert.Equal(t, x.status, res.StatusCode, "%.50q", x.text)
				assert.Empty(t, res.Header.Get("RateLimit"), "%.50q", x.text)
			}
			assert.Zero(t, refunds.Load(), "WithRefund is not called without a request")
			valid, err := http.Get("http://" + patient)
			require.NoError(t, err)
			_ = valid.Body.Close()
			assert.EqualValues(t, 1, refunds.Load(), "the premise: WithRefund is called for a request")
			res, err := limiter.Peek(t.Context(), "global:all")
			require.NoError(t, err)
			assert.EqualValues(t, 4, res.Remaining, "only the request takes a token")
		})
	}
}
