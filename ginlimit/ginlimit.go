// Package ginlimit limits requests in gin with token buckets:
//
//	r := gin.Default()
//	r.Use(ginlimit.PerIP(core.PerMinute(60).WithBurst(20)))
//
// [PerIP] limits each client address in this process. [New] is for everything else, such as buckets in Redis and other keys:
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	r.Use(ginlimit.New(limiter, ginlimit.ByHeader("X-Api-Key")))
package ginlimit

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// New returns a middleware that lets a request pass if limiter has tokens for its key.
//
// The policy chooses the header fields. A denied request is answered with 429 and an application/problem+json body
// (RFC 9457), a request without a key with 400, and one that can't be decided with 503 or 500. [OnDenied] and [OnError]
// replace these answers.
//
// New panics with all mistakes in its arguments: a nil limiter, a nil key, and a key or cost function that was made from
// bad arguments, such as a bad address range.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) gin.HandlerFunc {
	o := configured(options)
	return middleware(adapter.New(limiter, key, o.Options), o)
}

// PerIP returns a middleware that limits each client address, in this process alone: New with a MemoryStore and ByIP. A request
// takes one token from each of limits, or is denied. PerIP panics with all mistakes in limits.
//
// Use [New] for everything else: buckets in Redis that all replicas share, other keys, and options. Behind a proxy use New
// with ByIP(core.TrustProxies(…)): here all clients of a proxy share its address.
func PerIP(limits ...core.Limit) gin.HandlerFunc {
	return New(adapter.InProcess(limits), ByIP())
}

// configured returns what options set.
func configured(options []Option) (o config) {
	for _, option := range options {
		if option != nil {
			option(&o)
		}
	}
	o.ErrorStatus = answered
	return o
}

func middleware(engine *adapter.Engine[*gin.Context], o config) gin.HandlerFunc {
	return func(c *gin.Context) {
		v := engine.Begin(c, request{c})
		defer remember(c).forget(c)
		switch {
		case v.Outcome != adapter.Allowed:
			refuse(c, v, o)
		case engine.WantsStatus(v):
			watched(engine, c, v)
		default:
			c.Next()
		}
	}
}

// refuse answers a request that is not allowed. If the app's own function does not answer, the default answer follows. An
// error in c.Errors is an answer too: middleware in front renders it.
func refuse(c *gin.Context, v adapter.Verdict, o config) {
	defer c.Abort()
	status, errors := c.Writer.Status(), len(c.Errors)
	switch {
	case v.Outcome == adapter.Denied && o.denied != nil:
		o.denied(c, v.Result)
	case v.Outcome == adapter.Failed && o.failed != nil:
		o.failed(c, v.Err)
	}
	switch {
	case c.Writer.Status() != status || len(c.Errors) != errors:
	case v.Outcome == adapter.Denied:
		if !c.Writer.Written() {
			adapter.WriteProblem(c.Writer, v.Problem())
		}
	case v.AsIs, o.failed != nil && c.Writer.Written(): // the user's function has answered
	default:
		if p := adapter.Refuse(v); !c.Writer.Written() {
			adapter.WriteProblem(c.Writer, p)
		}
	}
}

// watched calls the next handlers and ends the request with its status.
func watched(engine *adapter.Engine[*gin.Context], c *gin.Context, v adapter.Verdict) {
	returned := false
	defer func() {
		status := c.Writer.Status()
		if !c.Writer.Written() && (!returned || len(c.Errors) > 0 && status == http.StatusOK) {
			// A handler panicked, or left its error, without a status, to middleware in front of this one.
			status = http.StatusInternalServerError
		}
		engine.Done(c, v, status)
	}()
	c.Next()
	returned = true
}

// answered returns the status of the response if a key, cost or limits function wrote one, such as with
// c.AbortWithStatus, before it returned an error. Otherwise it returns 0.
func answered(c *gin.Context, _ error) int {
	if c.Writer.Written() {
		return c.Writer.Status()
	}
	return 0
}

// decisionKey is a string: gin before v1.11 has no other keys.
const decisionKey = "ratelimit.decision"

// FromContext returns the decision about the request. Of several limiters, that is the decision of the one nearest to
// the handler. Error handlers find a denial too.
func FromContext(c *gin.Context) (core.Result, bool) {
	return adapter.FromContext(kept(c))
}

// request is a request as the engine reads it.
type request struct{ c *gin.Context }

func (x request) Context() context.Context    { return x.c.Request.Context() }
func (x request) Method() string              { return x.c.Request.Method }
func (x request) Path() string                { return x.c.Request.URL.Path }
func (x request) RemoteAddr() string          { return x.c.Request.RemoteAddr }
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
	if v, ok := get(x.c, (*gin.Context).Get, key); ok {
		return v
	}
	return x.c.Request.Context().Value(key)
}

// get returns what method, which is c.Get, has for key. Before gin v1.11 a key is a string, since then any value. A type
// parameter compiles with both.
func get[K any](c *gin.Context, method func(*gin.Context, K) (any, bool), key any) (any, bool) {
	k, ok := key.(K)
	if !ok {
		return nil, false
	}
	return method(c, k)
}

func (x request) SetDecision(d *adapter.Decision) { x.c.Set(decisionKey, d) }

func (x request) Decision() *adapter.Decision { return kept(x.c) }
