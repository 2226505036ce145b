package ginlimit

import (
	"context"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

func install(engine *adapter.Engine[*gin.Context], o *config) gin.HandlerFunc {
	return func(c *gin.Context) {
		a := engine.Begin(c, request{c})
		defer remember(c).forget(c)
		switch {
		case a.Verdict != middleware.Allowed:
			refuse(c, a, o)
		case engine.WantsDone(a):
			watched(engine, c, a)
		default:
			c.Next()
		}
	}
}

// Allow takes a token of key's bucket from within a handler, for keys that only
// the handler knows, such as the user name in a JSON body. It sets the header
// fields, and if there is no token, or no decision, it answers as a middleware
// of [New] does and returns false: the handler then returns. The Result can
// give the token back: see [core.Result.Undo]. If limiter has slots, defer its
// Release. [FromContext] returns the Result too.
//
// If the key has the client's address in it, take that from [ClientIP].
//
// Call it before the response has begun, and from one goroutine at a time,
// because it writes to the response. Each call adds to the header fields: in
// streams, WebSockets and loops use [core.Limiter.Allow]. If limiter counts no
// requests the answer is 500. Allow panics if limiter is nil.
func Allow(c *gin.Context, limiter *core.Limiter, key string) (res core.Result, allowed bool) {
	a := adapter.InHandler[*gin.Context](limiter, key).Begin(c, request{c})
	if a.Verdict != middleware.Allowed {
		refuse(c, a, new(config))
	}
	return a.Result(), a.Verdict == middleware.Allowed
}

// refuse answers a request that is not allowed. If the app's own function does
// not answer, the default answer follows. An error in c.Errors is an answer
// too: middleware in front renders it.
func refuse(c *gin.Context, a adapter.Admission, o *config) {
	defer c.Abort()
	status, errors := c.Writer.Status(), len(c.Errors)
	switch {
	case a.Verdict == middleware.Denied && o.denied != nil:
		o.denied(c, a.Result())
	case a.Verdict == middleware.Failed && o.failed != nil:
		o.failed(c, a.Err)
	}
	switch {
	case c.Writer.Status() != status || len(c.Errors) != errors:
	case a.Verdict == middleware.Denied:
		if !c.Writer.Written() {
			adapter.WriteProblem(c.Writer, a.Problem())
		}
	case a.AsIs, o.failed != nil && c.Writer.Written(): // the user's function has answered
	default:
		if p := adapter.Refuse(a); !c.Writer.Written() {
			adapter.WriteProblem(c.Writer, p)
		}
	}
}

// watched calls the next handlers and ends the request with its status.
func watched(engine *adapter.Engine[*gin.Context], c *gin.Context, a adapter.Admission) {
	returned := false
	defer func() {
		status := c.Writer.Status()
		if !c.Writer.Written() && (!returned || len(c.Errors) > 0 && status == http.StatusOK) {
			// A handler panicked, or left its error, without a status, to
			// middleware in front of this one.
			status = http.StatusInternalServerError
		}
		engine.Done(c, a, status)
	}()
	c.Next()
	returned = true
}

// errorStatus returns the status of the response if a key, cost or limits
// function wrote one, such as with c.AbortWithStatus, before it returned an
// error. Otherwise it returns 0.
func errorStatus(c *gin.Context, _ error) int {
	if c.Writer.Written() {
		return c.Writer.Status()
	}
	return 0
}

// decisionKey is a string: gin before v1.11 has no other keys.
const decisionKey = "ratelimit.decision"

// request is a request as the engine reads it.
type request struct{ c *gin.Context }

// adapt turns a function on a Request into one on *gin.Context.
func adapt[V any](f func(adapter.Request) (V, error)) func(*gin.Context) (V, error) {
	return adapter.Adapt(f, func(c *gin.Context) adapter.Request { return request{c} })
}

func (x request) Context() context.Context    { return x.c.Request.Context() }
func (x request) Method() string              { return x.c.Request.Method }
func (x request) Path() string                { return x.c.Request.URL.Path }
func (x request) RemoteAddr() string          { return x.c.Request.RemoteAddr }
func (x request) LocalAddr() net.Addr         { return adapter.LocalAddr(x.c.Request.Context()) }
func (x request) ContentLength() int64        { return x.c.Request.ContentLength }
func (x request) Header(name string) []string { return adapter.RequestHeader(x.c.Request, name) }
func (x request) Query(name string) string    { return x.c.Query(name) }
func (x request) Param(name string) string    { return x.c.Param(name) }
func (x request) Response() core.HeaderWriter { return x.c.Writer.Header() }

func (x request) Route() (pattern string, known bool) {
	pattern = x.c.FullPath()
	return pattern, pattern != ""
}

func (x request) Cookie(name string) string {
	value, _ := x.c.Cookie(name) // decoded, unlike net/http's
	return value
}

func (x request) Value(key any) any {
	if a, ok := get(x.c, (*gin.Context).Get, key); ok {
		return a
	}
	return x.c.Request.Context().Value(key)
}

// get returns what method, which is c.Get, has for key. Before gin v1.11 a key
// is a string, since then any value. A type parameter compiles with both.
func get[K any](c *gin.Context, method func(*gin.Context, K) (any, bool), key any) (any, bool) {
	k, ok := key.(K)
	if !ok {
		return nil, false
	}
	return method(c, k)
}

func (x request) SetDecision(d *middleware.Decision) { x.c.Set(decisionKey, d) }

func (x request) Decision() *middleware.Decision { return stored(x.c) }
