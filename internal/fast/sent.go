package fast

import (
	"log/slog"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/valyala/fasthttp"
)

// GoesOn reports whether the response of c goes on when its handler has
// returned, and WhenSent tells when it is over: its body is a stream, or the
// handler has hijacked the connection, such as for a WebSocket.
func GoesOn(c *fasthttp.RequestCtx) bool {
	return TellsWhenSent(c) && (c.Response.IsBodyStream() || c.Hijacked() && isOpen(c.Conn()))
}

// isOpen reports whether a hijacked connection is open at this end. fasthttp
// drops one that is not by the same look, and tells nobody: a handler of
// net/http behind fiber's adaptor may have closed it already.
func isOpen(conn net.Conn) bool { return conn.SetDeadline(time.Time{}) == nil }

// TellsWhenSent reports whether WhenSent will call its function: a server of
// fasthttp serves c, and no middleware has given up on it. Adapters for other
// servers, such as AWS Lambda, don't tell.
func TellsWhenSent(c *fasthttp.RequestCtx) bool {
	return c.ConnRequestNum() > 0 && c.LastTimeoutErrorResponse() == nil
}

// Status returns the status of c's response. If middleware has given up on c,
// that is the status it answered with.
func Status(c *fasthttp.RequestCtx) int {
	if late := c.LastTimeoutErrorResponse(); late != nil {
		return late.StatusCode()
	}
	return c.Response.StatusCode()
}

// WhenSent has do called when the response of c was sent, or can't be sent any
// more, and the handler of a hijacked connection has returned. c has then what
// it has now: its request and user values, but no other middleware. A panic of
// do is logged to log.
//
// fasthttp drops some requests without telling anybody: a hijacked connection
// whose answer can't be sent, or a request that a timeout middleware gives up
// on at the last moment. dropped is called for these, if it is not nil, when
// the garbage collector finds them, and may be called after do. It must not
// refer to c.
//
// fasthttp tells nobody that a response is over. But it closes the user values
// of a request that implement io.Closer, before it uses the request again. It
// has dropped those that were set before, so sent keeps them.
func WhenSent(c *fasthttp.RequestCtx, log *slog.Logger, dropped, do func()) {
	s := &sent{c: c, log: log, do: do}
	if dropped != nil {
		runtime.AddCleanup(s, func(dropped func()) { dropped() }, dropped)
	}
	c.VisitUserValuesAll(func(key, value any) { s.values = append(s.values, [2]any{key, value}) })
	c.SetUserValue(s, s)
}

// sent is a user value that is closed when the response was sent.
type sent struct {
	c      *fasthttp.RequestCtx
	values [][2]any
	log    *slog.Logger
	do     func()
}

// Close is called by fasthttp, where a panic would end the process.
func (s *sent) Close() error {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("ratelimit: a settle function panicked after the response", "code", "RL711", "panic", p)
		}
	}()
	for _, v := range s.values {
		s.c.SetUserValue(v[0], v[1])
	}
	defer func() {
		for _, v := range slices.Backward(s.values) { // fasthttp would keep them until it needs their place
			s.c.RemoveUserValue(v[0])
		}
	}()
	s.do()
	return nil
}
