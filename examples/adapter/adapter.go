// Package fasthttplimit limits requests of plain fasthttp. It is a complete adapter in one file. Copy it to begin an
// adapter for another framework. See docs/adapters.md.
package fasthttplimit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
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
	return middleware(adapter.New(limiter, copyKey(key), o.Options), o)
}

// Rule is one of the limiters of [NewTogether], with its key.
type Rule struct {
	Limiter *core.Limiter
	Key     KeyFunc
}

// NewTogether returns a middleware that lets a request pass if all limiters have tokens for their keys, and takes nothing
// from any if not.
func NewTogether(rules []Rule, options ...Option) func(fasthttp.RequestHandler) fasthttp.RequestHandler {
	o := configured(options)
	var list []adapter.Rule[*fasthttp.RequestCtx]
	for _, r := range rules {
		list = append(list, adapter.Rule[*fasthttp.RequestCtx]{Limiter: r.Limiter, Key: copyKey(r.Key)})
	}
	return middleware(adapter.NewTogether(list, o.Options), o)
}

// PerIP returns a middleware that limits each client address, in this process alone: New with a MemoryStore and ByIP. A request
// takes one token from each of limits, or is denied. PerIP panics with all mistakes in limits.
//
// Use [New] for everything else: buckets in Redis that all replicas share, other keys, and options. Behind a proxy use New
// with ByIP(core.TrustProxies(…)): here all clients of a proxy share its address.
func PerIP(limits ...core.Limit) func(fasthttp.RequestHandler) fasthttp.RequestHandler {
	return New(adapter.InProcess(limits), ByIP())
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

func middleware(engine *adapter.Engine[*fasthttp.RequestCtx], o config) func(fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(next fasthttp.RequestHandler) fasthttp.RequestHandler {
		return func(c *fasthttp.RequestCtx) {
			switch v := engine.Begin(c, request{c}); v.Outcome {
			case adapter.Denied:
				if o.denied == nil || silent(c, func() { o.denied(c, v.Result) }) {
					refuse(c, v.Problem())
				}
				closeUnread(c)
			case adapter.Failed:
				if o.failed == nil || silent(c, func() { o.failed(c, v.Err) }) {
					refuse(c, adapter.Refuse(v))
				}
				closeUnread(c)
			case adapter.Allowed:
				if !engine.WantsStatus(v) {
					next(c)
					return
				}
				status := http.StatusInternalServerError // if the handler panics
				defer func() {
					if engine.Settles(v) && (c.Response.IsBodyStream() || c.Hijacked()) { // the response is not over yet
						end := &whenSent{func() { engine.Done(c, v, status) }}
						c.SetUserValue(end, end)
						return
					}
					engine.Done(c, v, status)
				}()
				next(c)
				status = c.Response.StatusCode()
			}
		}
	}
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
// other user values then.
type whenSent struct{ do func() }

// Close is called by fasthttp, where a panic would end the process.
func (w *whenSent) Close() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("settle function: %v", p)
		}
	}()
	w.do()
	return nil
}

// copyKey copies what key returns: strings of fasthttp are views of buffers that it reuses.
func copyKey(key KeyFunc) func(*fasthttp.RequestCtx) (string, error) {
	if key == nil || adapter.ArgumentError[*fasthttp.RequestCtx, string](key) != nil {
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

// FromContext returns the decision about the request.
func FromContext(c *fasthttp.RequestCtx) (core.Result, bool) {
	return adapter.FromContext(c.UserValue(decisionKey{}))
}

// AllFromContext returns the decisions of all limiters about the request, the newest first.
func AllFromContext(c *fasthttp.RequestCtx) []core.Result {
	return adapter.AllFromContext(c.UserValue(decisionKey{}))
}

type decisionKey struct{}

// request is a request as the engine reads it.
type request struct{ c *fasthttp.RequestCtx }

func (x request) Method() string                  { return string(x.c.Method()) }
func (x request) Path() string                    { return string(x.c.Path()) }
func (x request) RemoteAddr() string              { return x.c.RemoteAddr().String() }
func (x request) Cookie(name string) string       { return string(x.c.Request.Header.Cookie(name)) }
func (x request) Query(name string) string        { return string(x.c.QueryArgs().Peek(name)) }
func (x request) SetDecision(d *adapter.Decision) { x.c.SetUserValue(decisionKey{}, d) }
func (x request) Response() core.HeaderWriter     { return header{&x.c.Response.Header} }

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
	if v := x.c.UserValue(key); v != nil {
		return v
	}
	return x.Context().Value(key)
}

func (x request) Decision() *adapter.Decision {
	d, _ := x.c.UserValue(decisionKey{}).(*adapter.Decision)
	return d
}

// header writes response header fields.
type header struct{ *fasthttp.ResponseHeader }

func (h header) Get(name string) string { return string(h.Peek(name)) }

// KeyFunc returns the key of a request: who or what is limited. Without a key it returns [core.ErrNoKey].
type KeyFunc func(*fasthttp.RequestCtx) (string, error)

func keyed(key adapter.KeyFunc) KeyFunc { return adapter.Adapt(key, asRequest) }

func asRequest(c *fasthttp.RequestCtx) adapter.Request { return request{c} }

// ByIP limits by the client's address.
func ByIP(options ...core.IPOption) KeyFunc { return keyed(adapter.ByIP(options...)) }

// ByHeader limits by a request header field.
func ByHeader(name string) KeyFunc { return keyed(adapter.ByHeader(name)) }

// ByCookie limits by a cookie's value.
func ByCookie(name string) KeyFunc { return keyed(adapter.ByCookie(name)) }

// ByQuery limits by a query parameter.
func ByQuery(name string) KeyFunc { return keyed(adapter.ByQuery(name)) }

// ByParam limits by a parameter of the route.
func ByParam(name string) KeyFunc { return keyed(adapter.ByParam(name)) }

// ByMethod limits by the request's method.
func ByMethod() KeyFunc { return keyed(adapter.ByMethod()) }

// ByPath limits by the path as requested, percent-decoded.
func ByPath() KeyFunc { return keyed(adapter.ByPath()) }

// ByRoute limits by the pattern that matched.
func ByRoute() KeyFunc {
	return keyed(adapter.ByRoute("let the router run before the limiter"))
}

// ByContextValue limits by a value that earlier middleware left.
func ByContextValue(key any) KeyFunc { return keyed(adapter.ByContextValue(key)) }

// Global limits all requests together.
func Global(name string) KeyFunc { return keyed(adapter.Global(name)) }

// Join limits by several keys together.
func Join(keys ...KeyFunc) KeyFunc { return adapter.Join[*fasthttp.RequestCtx](keys...) }

// FirstOf limits by the first key that is not missing.
func FirstOf(keys ...KeyFunc) KeyFunc { return adapter.FirstOf[*fasthttp.RequestCtx](keys...) }

type config struct {
	adapter.Options[*fasthttp.RequestCtx]
	denied func(*fasthttp.RequestCtx, core.Result)
	failed func(*fasthttp.RequestCtx, error)
}

// Option is an option of [New].
type Option func(*config)

// WithCost sets how many tokens a request takes.
func WithCost(cost func(*fasthttp.RequestCtx) (int64, error)) Option {
	return func(o *config) { o.Cost = cost }
}

// CostByContentLength is a cost for WithCost: a token for each bytesPerToken of the request's body.
func CostByContentLength(bytesPerToken int64) func(*fasthttp.RequestCtx) (int64, error) {
	return adapter.Adapt(adapter.CostByContentLength(bytesPerToken), asRequest)
}

// CostByContentLengthOr is CostByContentLength with another cost for a body of unknown length.
func CostByContentLengthOr(bytesPerToken, unknown int64) func(*fasthttp.RequestCtx) (int64, error) {
	return adapter.Adapt(adapter.CostByContentLengthOr(bytesPerToken, unknown), asRequest)
}

// WithUnits sets what a request takes besides requests, such as tokens.
func WithUnits(units func(*fasthttp.RequestCtx) (core.Units, error)) Option {
	return func(o *config) { o.Units = units }
}

// WithSettle corrects what a request took when its response is over. If its body is a stream, or the connection was hijacked, c
// has no user values then.
func WithSettle(settle func(c *fasthttp.RequestCtx, status int) core.Units) Option {
	return func(o *config) { o.Settle = settle }
}

// WithLimits sets the limits of a request. Nil means those of the policy.
func WithLimits(limits func(*fasthttp.RequestCtx) ([]core.Limit, error)) Option {
	return func(o *config) { o.Limits = limits }
}

// WithSkip lets a request pass, uncounted, if skip returns true.
func WithSkip(skip func(*fasthttp.RequestCtx) bool) Option {
	return func(o *config) { o.Skip = skip }
}

// WithRefund returns a request's tokens if refund returns true for its status.
func WithRefund(refund func(c *fasthttp.RequestCtx, status int) bool) Option {
	return func(o *config) { o.Refund = refund }
}

// OnDenied answers a denied request. It replaces 429.
func OnDenied(denied func(*fasthttp.RequestCtx, core.Result)) Option {
	return func(o *config) { o.denied = denied }
}

// OnError answers a request that has no decision.
func OnError(failed func(*fasthttp.RequestCtx, error)) Option {
	return func(o *config) { o.failed = failed }
}
