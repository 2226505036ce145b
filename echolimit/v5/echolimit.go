// Package echolimit limits requests in echo (v5) with token buckets:
//
//	e := echo.New()
//	e.Use(echolimit.PerIP(core.PerMinute(60).WithBurst(20)))
//
// [PerIP] limits each client address in this process. [New] is for everything else, such as buckets in Redis and other keys:
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	e.Use(echolimit.New(limiter, echolimit.ByHeader("X-Api-Key")))
//
// The package for echo v4 is echolimit, without /v5.
package echolimit

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// New returns a middleware that lets a request pass if limiter has tokens for its key.
//
// The policy chooses the header fields. For a request that does not pass, the middleware returns an [echo.HTTPError],
// which the app's error handler renders: 429 if it is denied, 400 if it has no key, 503 or 500 if it can't be decided.
// [OnDenied] and [OnError] replace these answers. [core.Problem] makes a body for a denial.
//
// New panics with all mistakes in its arguments: a nil limiter, a nil key, and a key or cost function that was made from
// bad arguments, such as a bad address range.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) echo.MiddlewareFunc {
	o := configured(options)
	return middleware(adapter.New(limiter, key, o.Options), o)
}

// PerIP returns a middleware that limits each client address, in this process alone: New with a MemoryStore and ByIP. A request
// takes one token from each of limits, or is denied. PerIP panics with all mistakes in limits.
//
// Use [New] for everything else: buckets in Redis that all replicas share, other keys, and options. Behind a proxy use New
// with ByIP(core.TrustProxies(…)): here all clients of a proxy share its address.
func PerIP(limits ...core.Limit) echo.MiddlewareFunc {
	return New(adapter.InProcess(limits), ByIP())
}

// configured returns what options set.
func configured(options []Option) *config {
	o := new(config)
	for _, option := range options {
		if option != nil {
			option(o)
		}
	}
	o.ErrorStatus = errorStatus
	return o
}

// middleware takes o as a pointer, because echo makes the inner closure for each request.
func middleware(engine *adapter.Engine[*echo.Context], o *config) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			v := engine.Begin(c, request{c})
			switch v.Outcome {
			case adapter.Denied, adapter.Failed:
				return refuse(c, v, o)
			case adapter.Allowed:
				switch {
				case !engine.WantsStatus(v):
					return next(c)
				case engine.Settles(v):
					return settled(engine, v, next, c)
				}
				nearest, plain := c.Response().(*echo.Response)
				res := innermost(c.Response())
				if res == nil {
					break // the status can't be known: a writer hides echo's
				}
				ended := engine.StatusHook(c, v)
				// The status is known when the response is written, for example by the app's error handler.
				res.Before(func() { ended(res.Status, true) })
				res.ResponseWriter = nethttp.OnSilent200(res.ResponseWriter, func() {
					if !res.Committed {
						ended(http.StatusOK, true) // by net/http, without telling echo; or the connection was hijacked
					}
				})
				err := next(c)
				// A writer around echo's, such as that of gzip, may hold the answer back until its middleware
				// returns. Then the Before hook reports the status.
				if err == nil && plain && !nearest.Committed && !res.Committed {
					ended(http.StatusOK, false) // net/http sends 200, unless middleware in front answers
				}
				return err
			}
			return next(c)
		}
	}
}

// refuse answers a request that is not allowed. If the app's own function neither answers nor returns an error, the default
// answer follows.
func refuse(c *echo.Context, v adapter.Verdict, o *config) error {
	var custom func() error
	switch {
	case v.Outcome == adapter.Denied && o.denied != nil:
		custom = func() error { return o.denied(c, v.Result) }
	case v.Outcome == adapter.Failed && o.failed != nil:
		custom = func() error { return o.failed(c, v.Err) }
	}
	if custom != nil {
		if silent, err := answer(c, custom); !silent {
			return err
		}
	}
	switch {
	case v.Outcome == adapter.Denied:
		return httpError(v.Problem())
	case v.AsIs:
		return v.Err
	}
	return httpError(adapter.Refuse(v))
}

// answer calls custom, and reports whether it did nothing: it returned no error and wrote nothing.
func answer(c *echo.Context, custom func() error) (silent bool, err error) {
	var written nethttp.Status
	if res, plain := c.Response().(*echo.Response); plain {
		below := res.ResponseWriter
		res.ResponseWriter = written.Watch(below)
		err = custom()
		res.ResponseWriter = below
		return err == nil && !res.Committed && written.Written() == 0, err
	}
	w := c.Response() // a writer around echo's, such as that of gzip, may hold the answer back
	c.SetResponse(written.Watch(w))
	err = custom()
	c.SetResponse(w)
	return err == nil && written.Written() == 0, err
}

// innermost returns echo's own response below w, or nil if w hides it. Middleware may have wrapped it in responses of
// the same type, and an error handler writes past these.
func innermost(w http.ResponseWriter) (res *echo.Response) {
	for {
		next, err := echo.UnwrapResponse(w)
		if err != nil {
			return res
		}
		res, w = next, next.Unwrap()
	}
}

// settled calls next, and has the engine settle the request when the response is over.
func settled(engine *adapter.Engine[*echo.Context], v adapter.Verdict, next echo.HandlerFunc, c *echo.Context) (err error) {
	returned, silent := false, false // silent is a 200 that echo does not know of: a flush, or a hijacked connection
	if res := innermost(c.Response()); res != nil {
		res.ResponseWriter = nethttp.OnSilent200(res.ResponseWriter, func() { silent = silent || !res.Committed })
	}
	// A writer around echo's, such as that of gzip, may hold the answer back until its middleware returns.
	var held nethttp.Status
	if w := c.Response(); !isPlain(w) {
		c.SetResponse(held.Watch(w))
		defer c.SetResponse(w) // after Done: deferred calls run in reverse order
	}
	defer func() {
		status := http.StatusOK
		if !silent {
			status = final(c, returned, err, held.Written())
		}
		engine.Done(c, v, status)
	}()
	err = next(c)
	returned = true
	return err
}

func isPlain(w http.ResponseWriter) bool {
	_, plain := w.(*echo.Response)
	return plain
}

// final is the status of a response that is over. held is that of one that a writer around echo's holds back, or 0.
func final(c *echo.Context, returned bool, err error, held int) int {
	status := http.StatusInternalServerError
	if returned && err == nil && held != 0 {
		status = held
	} else if returned && err == nil {
		status = http.StatusOK
	} else if code := errorStatus(c, err); code != 0 {
		status = code
	}
	if res := innermost(c.Response()); res != nil && res.Committed {
		status = res.Status
	}
	return status
}

func httpError(p core.ProblemDetails) error { return echo.NewHTTPError(p.Status, p.Title) }

// errorStatus returns the status of echo's own errors, and of errors with a status that echo understands.
func errorStatus(_ *echo.Context, err error) int { return echo.StatusCode(err) }

const decisionKey = "ratelimit.decision"

// FromContext returns the decision about the request. Of several limiters, that is the decision of the one nearest to
// the handler. Error handlers find a denial too.
func FromContext(c *echo.Context) (core.Result, bool) {
	return adapter.FromContext(c.Get(decisionKey))
}

// request is a request as the engine reads it.
type request struct{ c *echo.Context }

func (x request) Context() context.Context    { return x.c.Request().Context() }
func (x request) Method() string              { return x.c.Request().Method }
func (x request) Path() string                { return x.c.Request().URL.Path }
func (x request) RemoteAddr() string          { return x.c.Request().RemoteAddr }
func (x request) ContentLength() int64        { return x.c.Request().ContentLength }
func (x request) Header(name string) []string { return adapter.RequestHeader(x.c.Request(), name) }
func (x request) Query(name string) string    { return x.c.QueryParam(name) }
func (x request) Response() core.HeaderWriter { return x.c.Response().Header() }

func (x request) Route() (pattern string, known bool) {
	pattern = x.c.Path()
	return pattern, pattern != ""
}

func (x request) Param(name string) string {
	return adapter.DecodeParam(x.c.Request(), x.c.Param(name))
}

func (x request) Cookie(name string) string {
	if c, err := x.c.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

func (x request) Value(key any) any {
	if s, ok := key.(string); ok {
		if v := x.c.Get(s); v != nil {
			return v
		}
	}
	return x.c.Request().Context().Value(key)
}

func (x request) SetDecision(d *adapter.Decision) { x.c.Set(decisionKey, d) }

func (x request) Decision() *adapter.Decision {
	d, _ := x.c.Get(decisionKey).(*adapter.Decision)
	return d
}
