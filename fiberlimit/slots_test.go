package fiberlimit_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// limited returns an app of one route whose requests have one slot, and its
// limiter.
func limited(t *testing.T, handler fiber.Handler) (*fiber.App, *core.Limiter) {
	limiter := limittest.Limiter(t, core.NewMemoryStore(), "slots", core.InFlight(1))
	app := fiber.New(fiber.Config{StreamRequestBody: true, DisableStartupMessage: true})
	app.Use(fiberlimit.New(limiter, func(*fiber.Ctx) (string, error) { return "all", nil }))
	app.Get("/", handler)
	return app, limiter
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

// A handler that a timeout in front has given up on has its slot until it
// returns: fasthttp sends nothing more, and tells nobody.
func TestASlotOfAHandlerThatIsLate(t *testing.T) {
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	app, limiter := limited(t, func(c *fiber.Ctx) error {
		began <- struct{}{}
		<-goOn
		return stream(c, http.StatusOK, func(w *bufio.Writer) { _, _ = w.WriteString("late") })
	})
	address := started(t, func(l net.Listener) error {
		return fasthttp.Serve(l, fasthttp.TimeoutHandler(app.Handler(), 50*time.Millisecond, "too late"))
	})
	res, err := http.Get("http://" + address)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusRequestTimeout, res.StatusCode)
	<-began
	require.EqualValues(t, 0, limittest.Left(t, limiter, "all"), "the handler goes on")
	close(goOn)
	limittest.ComesBack(t, limiter, "all", 1, "the handler has returned")
}

// fasthttp drops a connection that its handler has taken over and closed, as
// one of net/http behind fiber's adaptor does, and tells nobody.
func TestASlotOfAConnectionThatWasClosed(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection would release it too
	app, limiter := limited(t, func(c *fiber.Ctx) error {
		c.Context().HijackSetNoResponse(true)
		c.Context().Hijack(func(net.Conn) {})
		return c.Context().Conn().Close()
	})
	connection, err := net.Dial("tcp", started(t, func(l net.Listener) error { return listen(app, l) }))
	require.NoError(t, err)
	defer connection.Close()
	_, err = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
	require.NoError(t, err)
	got, _ := io.ReadAll(connection)
	require.Empty(t, got)
	limittest.ComesBack(t, limiter, "all", 1, "the handler has closed the connection")
}

// A refused client that still sends its body gets its answer: the connection is
// not closed before.
func TestARefusalReachesAClientThatStillSends(t *testing.T) {
	app, limiter := limited(t, func(c *fiber.Ctx) error { return nil })
	core.Must(limiter.Allow(t.Context(), "all"))
	address := started(t, func(l net.Listener) error { return listen(app, l) })
	for range 50 {
		res, err := http.Post("http://"+address, "text/plain", strings.NewReader(strings.Repeat("x", 150<<10)))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	}
}
