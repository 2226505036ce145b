package fast

import (
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// prefetched is how much of a body of known length fasthttp reads before it
// calls the handler, although the body is a stream.
const prefetched = 8 << 10

// Refused is called when a limiter has answered c instead of the handler. It
// closes the connection after the answer if the request's body is a stream that
// was not read: fasthttp would take what is left of the body for the next
// requests, and a proxy in front would send their answers to other clients.
func Refused(c *fasthttp.RequestCtx) {
	if !c.Request.IsBodyStream() || c.Hijacked() {
		return
	}
	if n := c.Request.Header.ContentLength(); n >= 0 && n <= prefetched && len(c.Request.Body()) == n {
		return // the body is read, and still there for error handlers
	}
	c.Response.SetConnectionClose()
	left := &unread{c}
	c.SetUserValue(left, left)
}

// Answer is what tells whether somebody has answered a request.
type Answer struct {
	status, length   int
	stream, hijacked bool
}

// AnswerOf returns the answer that c has so far.
func AnswerOf(c *fasthttp.RequestCtx) Answer {
	a := Answer{status: c.Response.StatusCode(), stream: c.Response.IsBodyStream(), hijacked: c.Hijacked()}
	if !a.stream { // Body would read the stream
		a.length = len(c.Response.Body())
	}
	return a
}

// unread is a user value of a request whose body is left on the connection.
type unread struct{ c *fasthttp.RequestCtx }

// Close is called by fasthttp when the answer was written, and before it uses
// the connection again.
func (u *unread) Close() error {
	conn := u.c.Conn()
	if conn == nil {
		return nil
	}
	if !u.c.Response.ConnectionClose() { // an error handler has reset the response
		return conn.Close()
	}
	linger(conn)
	return nil
}

// How long, and for how much, a connection is read before it is closed. They
// are those of net/http.
const (
	lingering = 500 * time.Millisecond
	lingerFor = 256 << 10
)

// linger reads what the client still sends. A connection that is closed with
// unread bytes is reset, and then the client may lose the answer.
func linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(lingering)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, lingerFor) // ends at the deadline, or when the client closes
}
