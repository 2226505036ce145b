package fiberlimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit"
)

type userKey struct{}

// settling returns an app behind a limiter of 100 words. Each request takes 20
// of them; settle returns how many it was.
func settling(settle func(c *fiber.Ctx, status int) int64) (*fiber.App, *core.Limiter) {
	words := core.PerDay(100).WithName("words").WithUnit("words")
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{words}}))
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(fiberlimit.New(limiter, func(*fiber.Ctx) (string, error) { return "all", nil },
		fiberlimit.WithUnits(func(*fiber.Ctx) (core.Units, error) { return core.Units{"words": 20}, nil }),
		fiberlimit.WithSettle(func(c *fiber.Ctx, status int) core.Units { return core.Units{"words": settle(c, status)} })))
	return app, limiter
}

// started serves the app until the test ends, and returns its address.
func started(t *testing.T, app *fiber.App) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = listen(app, l) }()
	t.Cleanup(func() { _ = app.Shutdown() })
	return l.Addr().String()
}

// wantLeft waits until the limiter has so many words left.
func wantLeft(t *testing.T, limiter *core.Limiter, least, most int64, why string) {
	t.Helper()
	require.Eventually(t, func() bool {
		res, err := limiter.Peek(t.Context(), "all")
		return err == nil && res.Remaining >= least && res.Remaining <= most
	}, 20*time.Second, time.Millisecond, why)
}

// words streams three words, or words until the client has gone: then it sends
// on left.
func words(c *fiber.Ctx, left chan<- struct{}) error {
	var produced atomic.Int64
	c.Locals("produced", &produced)
	c.Locals("name", "ann")
	c.SetUserContext(context.WithValue(c.UserContext(), userKey{}, "user"))
	forever := c.Query("q") == "forever"
	return stream(c, http.StatusAccepted, func(w *bufio.Writer) {
		for i := 0; forever || i < 3; i++ {
			_, _ = fmt.Fprintln(w, "word")
			if w.Flush() != nil {
				left <- struct{}{}
				return
			}
			if i < 3 {
				produced.Add(1)
			}
		}
	})
}

// A settle function of a streamed response sees the request, its Locals and its
// context, although the handler's Ctx has served other requests since. It is
// called once, and the connection can be used again.
func TestSettleOfAStreamShowsTheRequest(t *testing.T) {
	type seen struct {
		status                                 int
		header, query, path, body, local, user any
		result                                 bool
	}
	settled, left := make(chan seen, 10), make(chan struct{}, 10)
	app, limiter := settling(func(c *fiber.Ctx, status int) int64 {
		_, ok := fiberlimit.FromContext(c)
		settled <- seen{status, c.Get("X-Test"), c.Query("q"), c.Path(), string(c.Body()), c.Locals("name"), c.UserContext().Value(userKey{}), ok}
		return c.Locals("produced").(*atomic.Int64).Load()
	})
	app.Post("/stream", func(c *fiber.Ctx) error { return words(c, left) })
	address := started(t, app)
	post := func(ctx context.Context, query string) *bufio.Reader {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/stream?q="+query, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("X-Test", "header "+query)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return bufio.NewReader(res.Body)
	}
	want := func(query string) seen {
		return seen{http.StatusAccepted, "header " + query, query, "/stream", "", "ann", "user", true}
	}
	for _, query := range []string{"a", "b"} {
		body, err := io.ReadAll(post(t.Context(), query))
		require.NoError(t, err)
		assert.Equal(t, "word\nword\nword\n", string(body))
		assert.Equal(t, want(query), <-settled)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	line, err := post(ctx, "forever").ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "word\n", line)
	hangUp()
	require.Eventually(t, func() bool { return len(left) == 1 && len(settled) == 1 }, 20*time.Second, time.Millisecond,
		"the stream ends and is settled after the client has hung up")
	assert.Equal(t, want("forever"), <-settled)
	wantLeft(t, limiter, 91, 93, "of 100 words two streams took 3, and the third took 1 to 3")
	assert.Empty(t, settled, "each request is settled once")
}

// A WebSocket's request is settled when the conversation on the hijacked
// connection is over, and not when it begins.
func TestSettleOfAHijackedConnection(t *testing.T) {
	settled := make(chan int, 10)
	app, limiter := settling(func(c *fiber.Ctx, status int) int64 {
		settled <- status
		return c.Locals("said").(*atomic.Int64).Load()
	})
	app.Get("/talk", func(c *fiber.Ctx) error {
		var said atomic.Int64
		c.Locals("said", &said)
		c.Status(http.StatusSwitchingProtocols).Context().Hijack(func(connection net.Conn) {
			lines := bufio.NewScanner(connection)
			for lines.Scan() {
				said.Add(3)
				_, _ = fmt.Fprintln(connection, "you said", lines.Text())
			}
		})
		return nil
	})
	connection, err := net.Dial("tcp", started(t, app))
	require.NoError(t, err)
	defer connection.Close()
	_, err = io.WriteString(connection, "GET /talk HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
	require.NoError(t, err)
	received := bufio.NewReader(connection)
	res, err := http.ReadResponse(received, nil)
	require.NoError(t, err)
	_ = res.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	for range 2 {
		_, err = fmt.Fprintln(connection, "hello")
		require.NoError(t, err)
		line, err := received.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "you said hello\n", line)
	}
	assert.Empty(t, settled, "the conversation goes on")
	require.NoError(t, connection.Close())
	wantLeft(t, limiter, 94, 94, "of 100 words the conversation took 6")
	assert.Equal(t, http.StatusSwitchingProtocols, <-settled)
	assert.Empty(t, settled, "the request is settled once")
}

// slotOf returns an app of one route whose requests have one slot, and its
// limiter.
func slotOf(handler fiber.Handler) (*fiber.App, *core.Limiter) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1)}}))
	app := fiber.New(fiber.Config{StreamRequestBody: true, DisableStartupMessage: true})
	app.Use(fiberlimit.New(limiter, func(*fiber.Ctx) (string, error) { return "all", nil }))
	app.Get("/", handler)
	return app, limiter
}

// A handler that a timeout in front has given up on has its slot until it
// returns: fasthttp sends nothing more, and tells nobody.
func TestASlotOfAHandlerThatIsLate(t *testing.T) {
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	app, limiter := slotOf(func(c *fiber.Ctx) error {
		began <- struct{}{}
		<-goOn
		return stream(c, http.StatusOK, func(w *bufio.Writer) { _, _ = w.WriteString("late") })
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() { _ = fasthttp.Serve(l, fasthttp.TimeoutHandler(app.Handler(), 50*time.Millisecond, "too late")) }()
	res, err := http.Get("http://" + l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusRequestTimeout, res.StatusCode)
	<-began
	wantLeft(t, limiter, 0, 0, "the handler goes on")
	close(goOn)
	wantLeft(t, limiter, 1, 1, "the handler has returned")
}

// fasthttp drops a connection that its handler has taken over and closed, as
// one of net/http behind fiber's adaptor does, and tells nobody.
func TestASlotOfAConnectionThatWasClosed(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection would release it too
	app, limiter := slotOf(func(c *fiber.Ctx) error {
		c.Context().HijackSetNoResponse(true)
		c.Context().Hijack(func(net.Conn) {})
		return c.Context().Conn().Close()
	})
	connection, err := net.Dial("tcp", started(t, app))
	require.NoError(t, err)
	defer connection.Close()
	_, err = io.WriteString(connection, "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n")
	require.NoError(t, err)
	got, _ := io.ReadAll(connection)
	require.Empty(t, got)
	wantLeft(t, limiter, 1, 1, "the handler has closed the connection")
}

// A refused client that still sends its body gets its answer: the connection is
// not closed before.
func TestARefusalReachesAClientThatStillSends(t *testing.T) {
	app, limiter := slotOf(func(c *fiber.Ctx) error { return nil })
	core.Must(limiter.Allow(t.Context(), "all"))
	address := started(t, app)
	for range 50 {
		res, err := http.Post("http://"+address, "text/plain", strings.NewReader(strings.Repeat("x", 150<<10)))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	}
}
