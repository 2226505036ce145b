package echolimit_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit/v5"
)

// hijackable hides the writer that it wraps, but handlers can take over the connection.
type hijackable struct {
	opaque
	http.Hijacker
}

// The slot of a connection that a handler takes over behind a writer that hides echo's is taken until the app releases it.
func TestSlotOfAHijackBehindAWriterWithoutUnwrap(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "talks", Limits: []core.Limit{core.InFlight(1)}}))
	left := func() int64 {
		res, err := limiter.Peek(context.Background(), "all")
		assert.NoError(t, err)
		return res.Remaining
	}
	over := make(chan core.Result, 1)
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			w := c.Response()
			c.SetResponse(hijackable{opaque{w}, w.(http.Hijacker)})
			defer c.SetResponse(w)
			err := next(c)
			res, _ := echolimit.FromContext(c)
			over <- res
			return err
		}
	})
	e.Use(echolimit.New(limiter, func(*echo.Context) (string, error) { return "all", nil }))
	e.GET("/", func(c *echo.Context) error {
		conn, _, err := http.NewResponseController(c.Response()).Hijack()
		if err != nil {
			return err
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
		t.Cleanup(func() { _ = conn.Close() })
		return nil
	})
	server := httptest.NewServer(e)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_ = answer.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	res := <-over
	assert.Zero(t, left(), "the slot is taken when the handler has returned")
	require.NoError(t, res.Release(t.Context()))
	assert.EqualValues(t, 1, left(), "the app has released it")
}
