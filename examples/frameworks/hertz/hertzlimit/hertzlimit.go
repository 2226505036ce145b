// Package hertzlimit limits requests of hertz: copy it. Keys and options are
// those of package adapter.
package hertzlimit

import (
	"context"
	"io"
	"net"
	"net/http"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/network"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// New returns a middleware that lets a request pass if limiter has tokens for
// its key. Options may be the zero value.
func New(limiter *core.Limiter, key adapter.KeyFunc, options adapter.Options[adapter.Request]) app.HandlerFunc {
	return Middleware(adapter.New(limiter, key, options), Refuse)
}

// Middleware returns the middleware of an engine: adapter.NewTogether's for
// several limiters, or within a handler adapter.InHandler's. refuse answers a
// request that is not allowed.
func Middleware(engine *adapter.Engine[adapter.Request], refuse func(*app.RequestContext, adapter.Admission)) app.HandlerFunc {
	return func(ctx context.Context, c *app.RequestContext) {
		x := Request{c, ctx}
		a := engine.Begin(x, x)
		switch {
		case a.Verdict != middleware.Allowed:
			refuse(c, a)
			c.Abort()
			if c.Request.IsBodyStream() { // hertz would take what was not read for requests
				c.SetConnectionClose()
			}
		case engine.WantsDone(a):
			status := http.StatusInternalServerError // if the handler panics
			defer func() { whenOver(c, func() { engine.Done(x, a, status) }) }()
			c.Next(ctx)
			status = c.Response.StatusCode()
		}
	}
}

// Refuse answers with a problem (RFC 9457).
func Refuse(c *app.RequestContext, a adapter.Admission) {
	problem := adapter.Refuse(a)
	if a.Verdict == middleware.Denied {
		problem = a.Problem()
	}
	c.JSON(problem.Status, problem)
	c.SetContentType("application/problem+json")
}

// whenOver calls done when the response is over. Streams, and connections that
// the handler takes over, go on when it has returned.
func whenOver(c *app.RequestContext, done func()) {
	switch takeOver := c.GetHijackHandler(); {
	case takeOver != nil:
		c.SetHijackHandler(func(conn network.Conn) { defer done(); takeOver(conn) })
	case c.Response.IsBodyStream():
		length := c.Response.Header.ContentLength()
		c.Response.SetBodyStreamNoReset(stream{c.Response.BodyStream(), done}, length)
	default:
		done()
	}
}

// stream is a body. Hertz closes it when it was sent, or can't be.
type stream struct {
	io.Reader
	done func()
}

func (s stream) Close() (err error) {
	if c, ok := s.Reader.(io.Closer); ok {
		err = c.Close()
	}
	s.done()
	return err
}

// FromContext returns the decision about the request.
func FromContext(c *app.RequestContext) (core.Result, bool) {
	return middleware.FromContext(c.Value(decisionKey))
}

const decisionKey = "hertzlimit.decision"

// Request is a request as the engine and key functions read it.
type Request struct {
	*app.RequestContext
	Ctx context.Context
}

func (x Request) Context() context.Context            { return x.Ctx }
func (x Request) Method() string                      { return string(x.RequestContext.Method()) }
func (x Request) Path() string                        { return string(x.RequestContext.Path()) }
func (x Request) Route() (pattern string, known bool) { return x.FullPath(), x.FullPath() != "" }
func (x Request) RemoteAddr() string                  { return x.RequestContext.RemoteAddr().String() }
func (x Request) LocalAddr() net.Addr                 { return x.GetConn().LocalAddr() }
func (x Request) Cookie(name string) string           { return string(x.RequestContext.Cookie(name)) }
func (x Request) Response() core.HeaderWriter         { return &x.RequestContext.Response.Header }
func (x Request) SetDecision(d *middleware.Decision)  { x.Set(decisionKey, d) }
func (x Request) Decision() *middleware.Decision {
	d, _ := x.RequestContext.Value(decisionKey).(*middleware.Decision)
	return d
}

func (x Request) Header(name string) []string {
	if name == "Host" { // the host of a whole URL in the request line goes before the field
		return []string{string(x.Host())}
	}
	return x.Request.Header.GetAll(name)
}

// ContentLength returns -1 for a chunked body. Hertz uses -2 for none.
func (x Request) ContentLength() int64 {
	if length := x.Request.Header.ContentLength(); length >= -1 {
		return int64(length)
	}
	return 0
}

func (x Request) Value(key any) any {
	if v := x.RequestContext.Value(key); v != nil {
		return v
	}
	return x.Ctx.Value(key)
}
