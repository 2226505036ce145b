package ginlimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// watchHijack has v know whether the handlers behind a limiter take over the connection. Call what it returns when they are over.
func watchHijack(c *gin.Context, v adapter.Verdict) (over func()) {
	w := &writer{c.Writer, v}
	c.Writer = w
	return func() {
		if c.Writer == gin.ResponseWriter(w) {
			c.Writer = w.ResponseWriter
		} else if c.Writer.Written() && tookOver(c.Writer) {
			v.Hijacked()
		}
	}
}

// tookOver reports whether the connection of w, which was written to, was taken over past a limiter's writer. HandleContext, which
// routes a request again, removes all writers that middleware has set.
func tookOver(w http.ResponseWriter) bool {
	server := w
	for {
		if _, watched := server.(*writer); watched {
			return false
		}
		below, ok := server.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		server = below.Unwrap()
	}
	if server == w { // middleware's own, which may be used by another request already
		return false
	}
	_, err := server.Write(nil) // sends nothing
	return errors.Is(err, http.ErrHijacked)
}

// writer notes when a handler takes over the connection.
type writer struct {
	gin.ResponseWriter
	v adapter.Verdict
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.v.Hijacked()
	}
	return conn, rw, err
}

// FlushError is for [http.ResponseController]. Without it, the error of a writer in front would be lost.
func (w *writer) FlushError() error { return http.NewResponseController(w.ResponseWriter).Flush() }

// ReadFrom is that of the writer in front, if it has one.
func (w *writer) ReadFrom(from io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, from) }

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
