package ginlimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/ginlimit"
)

// exports returns a limiter of one slot.
func exports() *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1)}}))
}

// frontWriter is a writer of middleware in front of a limiter.
type frontWriter struct {
	gin.ResponseWriter
	flushed, copied int
}

var errClientGone = errors.New("the client has gone")

func (w *frontWriter) FlushError() error { w.flushed++; return errClientGone }

func (w *frontWriter) ReadFrom(from io.Reader) (int64, error) {
	w.copied++
	return io.Copy(w.ResponseWriter, from)
}

func (w *frontWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A limiter with slots stands between a handler and the writer of middleware in front. The handler has all that it offers, and that
// middleware finds its writer again.
func TestWriterOfMiddlewareInFrontStays(t *testing.T) {
	r := gin.New()
	var front *frontWriter
	r.Use(func(c *gin.Context) {
		front = &frontWriter{ResponseWriter: c.Writer}
		c.Writer = front
		c.Next()
		assert.Same(t, front, c.Writer, "middleware in front finds its own writer when the handlers are over")
	})
	r.Use(ginlimit.New(exports(), ginlimit.Global("all")))
	r.GET("/", func(c *gin.Context) {
		n, err := io.Copy(c.Writer, struct{ io.Reader }{strings.NewReader("all")})
		assert.NoError(t, err)
		assert.EqualValues(t, 3, n)
		assert.ErrorIs(t, http.NewResponseController(c.Writer).Flush(), errClientGone, "the error of a flush reaches the handler")
		assert.NoError(t, http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(time.Hour)), "a deadline reaches the server")
		c.Writer.Flush()
		c.Writer.CloseNotify()
		assert.Nil(t, c.Writer.Pusher(), "HTTP/1.1 has no push")
	})
	server := httptest.NewServer(r)
	defer server.Close()
	res, err := http.Get(server.URL)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	assert.Equal(t, "all", string(body))
	assert.Equal(t, 1, front.copied, "io.Copy uses the ReadFrom of the writer in front")
	assert.Equal(t, 1, front.flushed)
}

// What middleware behind a limiter has left in c.Writer stays there, as without a limiter.
func TestWriterOfMiddlewareBehindStays(t *testing.T) {
	r := gin.New()
	var behind *frontWriter
	r.Use(func(c *gin.Context) {
		c.Next()
		assert.Same(t, behind, c.Writer)
	})
	r.Use(ginlimit.New(exports(), ginlimit.Global("all")))
	r.GET("/", func(c *gin.Context) {
		behind = &frontWriter{ResponseWriter: c.Writer}
		c.Writer = behind
		c.String(http.StatusOK, "all")
	})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, http.StatusOK, w.Code)
}

// HandleContext removes the writers that middleware has set, also the one that notes that a handler takes over the connection. The
// slot is taken all the same until the app releases it, and a request that was only routed again releases its slot.
func TestSlotOfARequestThatIsRoutedAgain(t *testing.T) {
	limiter := exports()
	r := gin.New()
	conns := make(chan net.Conn, 1)
	results := make(chan core.Result, 1)
	over := make(chan int64, 10)
	key := func(*gin.Context) (string, error) { return "all", nil }
	left := func() int64 {
		res, err := limiter.Peek(context.Background(), "all")
		if err != nil {
			t.Error(err)
		}
		return res.Remaining
	}
	r.Use(func(c *gin.Context) {
		c.Next()
		over <- left()
	})
	r.Use(ginlimit.New(limiter, key))
	again := func(path string) gin.HandlerFunc {
		return func(c *gin.Context) {
			c.Request.URL.Path = path
			r.HandleContext(c)
		}
	}
	r.GET("/plain", again("/answer"))
	r.GET("/upgrade", again("/talk"))
	r.GET("/answer", func(c *gin.Context) { c.String(http.StatusOK, "all") })
	r.GET("/talk", func(c *gin.Context) {
		res, _ := ginlimit.FromContext(c)
		conn, _, err := c.Writer.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
		results <- res
		conns <- conn
	})
	server := httptest.NewServer(r)
	defer server.Close()

	for range 2 {
		res, err := http.Get(server.URL + "/plain")
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, "a slot is free for each request in turn")
		<-over // of the second pass, where the slot is still taken
		assert.EqualValues(t, 1, <-over, "a request that was routed again has released its slot")
	}

	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /upgrade HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: talk\r\n\r\n")
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_ = res.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
	<-over
	assert.Zero(t, <-over, "the slot of a connection that was taken over after a reroute stays taken")
	result := <-results
	require.NoError(t, result.Release(t.Context()))
	assert.EqualValues(t, 1, left(), "the app has released it")
	_ = (<-conns).Close()
}
