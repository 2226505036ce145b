// Package fasthttplimit limits requests of plain fasthttp. It is a complete adapter: this file has what the
// framework needs, and api.go the names that every adapter has. Copy both to begin an adapter for another framework: see
// docs/adapters.md.
package fasthttplimit

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Fasthttp has no routes and no contexts. A router in front stores them as user values under these keys, and the
// parameters of the route under their names.
const (
	RouteKey   = "fasthttplimit.route"   // the pattern, a string
	ContextKey = "fasthttplimit.context" // the request's context.Context
)

// New returns a middleware that lets a request pass if limiter has tokens for its key.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) func(fasthttp.RequestHandler) fasthttp.RequestHandler {
	o := configured(options)
	return install(adapter.New(limiter, copyKey(key), o.Options), o)
}

// Rule is one of the limiters of [NewTogether], with its key.
type Rule = middleware.Rule[KeyFunc]

// NewTogether returns a middleware that lets a request pass if all limiters have tokens for their keys, and takes nothing
// from any if not.
func NewTogether(rules []Rule, options ...Option) func(fasthttp.RequestHandler) fasthttp.RequestHandler {
	o := configured(options)
	var list []Rule
	for _, r := range rules {
		list = append(list, Rule{Limiter: r.Limiter, Key: copyKey(r.Key)})
	}
	return install(adapter.NewTogether(list, o.Options), o)
}

// PerIP returns a middleware that limits each client address, in this process alone: New with a MemoryStore and [ByIP], whose
// options it takes. It panics with all mistakes in its arguments. For several limits, other keys, or buckets in Redis, use New.
func PerIP(limit core.Limit, options ...core.IPOption) func(fasthttp.RequestHandler) fasthttp.RequestHandler {
	return New(adapter.InProcess(limit, options), ByIP(options...))
}

// configured returns what options set.
func configured(options []Option) (o config) {
	for _, option := range options {
		if option != nil {
			option(&o)
		}
	}
	return o
}

func install(engine *adapter.Engine[*fasthttp.RequestCtx], o config) func(fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(next fasthttp.RequestHandler) fasthttp.RequestHandler {
		return func(c *fasthttp.RequestCtx) {
			switch a := engine.Begin(c, request{c}); a.Verdict {
			case middleware.Denied:
				if o.denied == nil || silent(c, func() { o.denied(c, a.Result()) }) {
					refuse(c, a.Problem())
				}
				closeUnread(c)
			case middleware.Failed:
				if o.failed == nil || silent(c, func() { o.failed(c, a.Err) }) {
					refuse(c, adapter.Refuse(a))
				}
				closeUnread(c)
			case middleware.Allowed:
				if !engine.WantsDone(a) {
					next(c)
					return
				}
				status := http.StatusInternalServerError // if the handler panics
				defer func() {
					if engine.WantsOver(a) && goesOn(c) {
						end := newWhenSent(c, func() { engine.Done(c, a, status) })
						if dropped := a.Dropped(); dropped != nil { // fasthttp drops a hijacked connection whose answer can't be sent
							runtime.AddCleanup(end, func(dropped func()) { dropped() }, dropped)
						}
						c.SetUserValue(end, end)
						return
					}
					engine.Done(c, a, status)
				}()
				next(c)
				status = c.Response.StatusCode()
			}
		}
	}
}

// goesOn reports whether the response is not over when the handler has returned. Nothing goes on if a timeout middleware has answered, or
// if the handler has closed the connection that it took over: fasthttp drops that, and tells nobody.
func goesOn(c *fasthttp.RequestCtx) bool {
	takenOver := c.Hijacked() && c.Conn().SetDeadline(time.Time{}) == nil
	return (c.Response.IsBodyStream() || takenOver) && c.LastTimeoutErrorResponse() == nil
}

// silent reports whether answer wrote nothing. The default answer follows then.
func silent(c *fasthttp.RequestCtx, answer func()) bool {
	answer()
	return c.Response.StatusCode() == http.StatusOK && !c.Response.IsBodyStream() && len(c.Response.Body()) == 0
}

// closeUnread closes the connection after the answer if the server has StreamRequestBody and the body was not read:
// fasthttp would take what is left of it for the next requests.
func closeUnread(c *fasthttp.RequestCtx) {
	if c.Request.IsBodyStream() {
		c.SetConnectionClose()
	}
}

// whenSent is a user value. Fasthttp closes it when the response was sent, or can't be sent any more. It has dropped the
// user values that were set before then, so whenSent keeps them for settle functions.
type whenSent struct {
	c      *fasthttp.RequestCtx
	values [][2]any
	do     func()
}

func newWhenSent(c *fasthttp.RequestCtx, do func()) *whenSent {
	w := &whenSent{c: c, do: do}
	c.VisitUserValuesAll(func(key, value any) { w.values = append(w.values, [2]any{key, value}) })
	return w
}

// Close is called by fasthttp, where a panic would end the process.
func (w *whenSent) Close() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("settle function: %v", p)
		}
		for _, v := range w.values {
			w.c.RemoveUserValue(v[0])
		}
	}()
	for _, v := range w.values {
		w.c.SetUserValue(v[0], v[1])
	}
	w.do()
	return nil
}

// copyKey copies what key returns: strings of fasthttp are views of buffers that it reuses.
func copyKey(key KeyFunc) func(*fasthttp.RequestCtx) (string, error) {
	if key == nil || middleware.ArgumentError[*fasthttp.RequestCtx, string](key) != nil {
		return key
	}
	return func(c *fasthttp.RequestCtx) (string, error) {
		k, err := key(c)
		return strings.Clone(k), err
	}
}

// refuse answers the way the framework does: here, with a problem (RFC 9457).
func refuse(c *fasthttp.RequestCtx, p core.ProblemDetails) {
	body, err := json.Marshal(p)
	if err != nil { // can't happen: p holds strings and an integer
		body = []byte("{}")
	}
	c.SetStatusCode(p.Status)
	c.SetContentType("application/problem+json")
	c.SetBody(body)
}

// Allow takes a token, or a slot, of key's bucket from within a handler, for keys that only the handler knows. The handler releases a
// slot: defer the Result's Release. If it returns false, it has
// answered the request. It copies key, because fasthttp reuses its strings.
func Allow(c *fasthttp.RequestCtx, limiter *core.Limiter, key string) (res core.Result, allowed bool) {
	a := adapter.InHandler[*fasthttp.RequestCtx](limiter, strings.Clone(key)).Begin(c, request{c})
	switch a.Verdict {
	case middleware.Denied:
		refuse(c, a.Problem())
		closeUnread(c)
	case middleware.Failed:
		refuse(c, adapter.Refuse(a))
		closeUnread(c)
	case middleware.Allowed:
	}
	return a.Result(), a.Verdict == middleware.Allowed
}

// FromContext returns the decision about the request.
func FromContext(c *fasthttp.RequestCtx) (core.Result, bool) {
	return middleware.FromContext(c.UserValue(decisionKey{}))
}

// AllFromContext returns the decisions of all limiters about the request, the newest first.
func AllFromContext(c *fasthttp.RequestCtx) []core.Result {
	return middleware.AllFromContext(c.UserValue(decisionKey{}))
}

type decisionKey struct{}

// request is a request as the engine reads it.
type request struct{ c *fasthttp.RequestCtx }

func (x request) Method() string                     { return string(x.c.Method()) }
func (x request) Path() string                       { return string(x.c.Path()) }
func (x request) RemoteAddr() string                 { return x.c.RemoteAddr().String() }
func (x request) LocalAddr() net.Addr                { return x.c.LocalAddr() }
func (x request) Cookie(name string) string          { return string(x.c.Request.Header.Cookie(name)) }
func (x request) Query(name string) string           { return string(x.c.QueryArgs().Peek(name)) }
func (x request) SetDecision(d *middleware.Decision) { x.c.SetUserValue(decisionKey{}, d) }
func (x request) Response() core.HeaderWriter        { return header{&x.c.Response.Header} }

// Context returns a context of the request's own. The RequestCtx may serve the next request while a store still reads
// this one's context.
func (x request) Context() context.Context {
	if ctx, ok := x.c.UserValue(ContextKey).(context.Context); ok {
		return ctx
	}
	return context.Background()
}

func (x request) Route() (pattern string, known bool) {
	pattern, known = x.c.UserValue(RouteKey).(string)
	return pattern, known
}

// Param is percent-decoded already: fasthttp decodes the path.
func (x request) Param(name string) string {
	value, _ := x.c.UserValue(name).(string)
	return value
}

// ContentLength returns -1 for a chunked body. Fasthttp uses -2 for a request without a body.
func (x request) ContentLength() int64 {
	if length := x.c.Request.Header.ContentLength(); length >= -1 {
		return int64(length)
	}
	return 0
}

func (x request) Header(name string) (values []string) {
	if name == "Host" { // the host of a whole URL in the request line goes before the field
		return []string{string(x.c.Host())}
	}
	for _, field := range x.c.Request.Header.PeekAll(name) {
		values = append(values, string(field))
	}
	return values
}

func (x request) Value(key any) any {
	if a := x.c.UserValue(key); a != nil {
		return a
	}
	return x.Context().Value(key)
}

func (x request) Decision() *middleware.Decision {
	d, _ := x.c.UserValue(decisionKey{}).(*middleware.Decision)
	return d
}

// header writes response header fields.
type header struct{ *fasthttp.ResponseHeader }

func (h header) Get(name string) string { return string(h.Peek(name)) }
