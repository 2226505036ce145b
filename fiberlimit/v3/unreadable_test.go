package fiberlimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// Fiber v3 runs middleware for connections that send no valid request, and then
// answers with the error handler. They take no token, are not refunded, and get
// no other status, with fiber's own context and with one of the app. The suite
// has more that is not valid, for fiber's own.
func TestConnectionsWithoutAValidRequestTakeNoToken(t *testing.T) {
	for name, build := range map[string]func(fiber.Config) *fiber.App{
		"fiber's context":      func(config fiber.Config) *fiber.App { return fiber.New(config) },
		"a context of the app": withTenants,
	} {
		t.Run(name, func(t *testing.T) {
			limiter := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerDay(5))
			var refunds atomic.Int64
			limit := fiberlimit.New(limiter, fiberlimit.Global("all"), fiberlimit.WithRefund(func(fiber.Ctx, int) bool {
				refunds.Add(1)
				return false
			}))
			serve := func(readTimeout time.Duration) (addr string) {
				app := build(fiber.Config{ReadTimeout: readTimeout})
				app.Use(limit)
				return started(t, func(l net.Listener) error { return listen(app, l) })
			}
			patient, impatient := serve(time.Minute), serve(100*time.Millisecond)
			for _, x := range []struct {
				addr, text string
				status     int
			}{
				{impatient, "", http.StatusRequestTimeout},
				{impatient, "GET / HTTP/1.1\r\n", http.StatusRequestTimeout},
				{patient, "GET / HTTP/1.1\r\nno colon\r\n\r\n", http.StatusBadRequest},
			} {
				conn, err := net.Dial("tcp", x.addr)
				require.NoError(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, x.text)
				require.NoError(t, err)
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err, x.text)
				_ = res.Body.Close()
				assert.Equal(t, x.status, res.StatusCode, x.text)
				assert.Empty(t, res.Header.Get("RateLimit"), x.text)
			}
			assert.Zero(t, refunds.Load(), "WithRefund is not called without a request")
			valid, err := http.Get("http://" + patient)
			require.NoError(t, err)
			_ = valid.Body.Close()
			assert.EqualValues(t, 1, refunds.Load(), "the premise: WithRefund is called for a request")
			assert.EqualValues(t, 4, limittest.Left(t, limiter, "global:all"), "only the request takes a token")
		})
	}
}

// started serves until the test ends, and returns the address.
func started(t *testing.T, serve func(net.Listener) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = serve(l) }()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
