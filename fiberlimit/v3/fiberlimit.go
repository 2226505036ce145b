// Package fiberlimit limits requests in fiber (v3) with token buckets:
//
//	app := fiber.New()
//	app.Use(fiberlimit.PerIP(core.PerMinute(60).WithBurst(20)))
//
// [PerIP] limits each client address in this process. [New] is for everything else, such as buckets in Redis and other keys:
//
//	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}})
//	...
//	app.Use(fiberlimit.New(limiter, fiberlimit.ByHeader("X-Api-Key")))
//
// With a custom context of the app's own, key and option functions receive that: c.(*myCtx). The package for
// fiber v2 is fiberlimit, without /v3.
package fiberlimit

import (
	"cmp"
	"context"
	"errors"
	"net/netip"

	"github.com/gofiber/fiber/v3"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/fast"
)

// New returns a middleware that lets a request pass if limiter has tokens for its key.
//
// The policy chooses the header fields. A handler that replaces the whole response, as a proxy does, removes them. For
// a request that does not pass, the middleware returns a [fiber.Error], which the app's error handler renders: 429 if it
// is denied, 400 if it has no key, 503 or 500 if it can't be decided. [OnDenied] and [OnError] replace these answers.
// [core.Problem] makes a body for a denial.
//
// New panics with all mistakes in its arguments: a nil limiter, a nil key, and a key or cost function that was made from
// bad arguments, such as a bad address range.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) fiber.Handler {
	o := configured(options)
	return middleware(adapter.New(limiter, fast.CopyKey(key), o.Options), o)
}

// PerIP returns a middleware that limits each client address, in this process alone: New with a MemoryStore and ByIP. A request
// takes one token from each of limits, or is denied. PerIP panics with all mistakes in limits.
//
// Use [New] for everything else: buckets in Redis that all replicas share, other keys, and options. Behind a proxy use New
// with ByIP(core.TrustProxies(…)): here all clients of a proxy share its address.
func PerIP(limits ...core.Limit) fiber.Handler {
	return New(adapter.InProcess(limits), ByIP())
}

// configured returns what options set.
func configured(options []Option) (o config) {
	for _, option := range options {
		if option != nil {
			option(&o)
		}
	}
	o.ErrorStatus = errorStatus
	return o
}

func middleware(engine *adapter.Engine[fiber.Ctx], o config) fiber.Handler {
	return func(c fiber.Ctx) error {
		if unreadable(c) {
			return c.Next()
		}
		x := requests.Get(c)
		v := engine.Begin(c, x)
		requests.Put(x)
		if v.Outcome != adapter.Allowed {
			defer fast.Refused(c.RequestCtx())
			return refuse(c, v, o)
		}
		if engine.WantsStatus(v) {
			return watched(engine, c, v)
		}
		return c.Next()
	}
}

// refuse answers a request that is not allowed. If the app's own function neither answers nor returns an error, the default
// answer follows.
func refuse(c fiber.Ctx, v adapter.Verdict, o config) (err error) {
	before := fast.AnswerOf(c.RequestCtx())
	switch {
	case v.Outcome == adapter.Denied && o.denied != nil:
		err = o.denied(c, v.Result)
	case v.Outcome == adapter.Failed && o.failed != nil:
		err = o.failed(c, v.Err)
	}
	switch {
	case err != nil || fast.AnswerOf(c.RequestCtx()) != before:
		return err
	case v.Outcome == adapter.Denied:
		return httpError(v.Problem())
	case v.AsIs:
		return v.Err
	}
	return httpError(adapter.Refuse(v))
}

// watched calls the next handler and ends the request with its status.
func watched(engine *adapter.Engine[fiber.Ctx], c fiber.Ctx, v adapter.Verdict) error {
	status := fiber.StatusInternalServerError // if the handler panics
	defer func() { done(engine, c, v, status) }()
	err := c.Next()
	if e := (*fiber.Error)(nil); errors.As(err, &e) {
		status = e.Code
	} else if err == nil {
		status = c.Response().StatusCode()
	} else if fast.TellsWhenSent(c.RequestCtx()) {
		status = 0 // the app's error handler chooses it
	}
	return err
}

// done ends a request: if its status is not known yet, or it is to be settled and its response goes on, when that is over. c is over then, so another one shows
// the request. Of an abandoned c nothing goes on: fiber's timeout middleware has answered already.
func done(engine *adapter.Engine[fiber.Ctx], c fiber.Ctx, v adapter.Verdict, status int) {
	if c.IsAbandoned() || status != 0 && !(engine.Settles(v) && fast.GoesOn(c.RequestCtx())) {
		engine.Done(c, v, cmp.Or(status, fiber.StatusInternalServerError))
		return
	}
	app, sent, ctx := c.App(), c.RequestCtx(), c.Context()
	fast.WhenSent(sent, engine.Logger(), func() {
		c := app.AcquireCtx(sent)
		defer app.ReleaseCtx(c)
		c.SetContext(ctx) // which AcquireCtx has removed
		if status == 0 {
			status = sent.Response.StatusCode()
		}
		engine.Done(c, v, status)
	})
}

func httpError(p core.ProblemDetails) error { return fiber.NewError(p.Status, p.Title) }

// errorStatus returns the status of fiber's own errors.
func errorStatus(_ fiber.Ctx, err error) int {
	if fe := (*fiber.Error)(nil); errors.As(err, &fe) {
		return fe.Code
	}
	return 0
}

type decisionKey struct{}

// FromContext returns the decision about the request. Of several limiters, that is the decision of the one nearest to
// the handler. Error handlers find a denial too.
func FromContext(c fiber.Ctx) (core.Result, bool) {
	return adapter.FromContext(c.Locals(decisionKey{}))
}

// request is a request as the engine reads it.
type request struct{ c fiber.Ctx }

// requests are reused, because fiber.Ctx is an interface.
var requests = adapter.NewPool(func(x *request, c fiber.Ctx) { x.c = c })

func (x request) Context() context.Context  { return x.c.Context() }
func (x request) Method() string            { return x.c.Method() }
func (x request) Path() string              { return fast.Path(x.c.RequestCtx()) }
func (x request) Cookie(name string) string { return x.c.Cookies(name) }
func (x request) Query(name string) string  { return x.c.Query(name) }
func (x request) ContentLength() int64      { return fast.ContentLength(x.c.RequestCtx()) }
func (x request) RemoteAddr() string        { return x.c.RequestCtx().RemoteAddr().String() }
func (x request) RemoteIP() netip.Addr      { return fast.RemoteIP(x.c.RequestCtx()) }

// Route is that of the middleware itself, and not known, in what was installed by Use.
func (x request) Route() (pattern string, known bool) { return x.c.Route().Path, x.c.Matched() }

func (x request) Param(name string) string {
	return fast.DecodeParam(x.c.Params(name), x.c.App().Config().UnescapePath)
}

func (x request) Header(name string) []string {
	return fast.Header(x.c.RequestCtx(), name, x.c.App().Config().DisableHeaderNormalizing)
}

func (x request) Response() core.HeaderWriter {
	return fast.ResponseHeader{ResponseHeader: &x.c.Response().Header}
}

func (x request) Value(key any) any {
	if v := x.c.Locals(key); v != nil {
		return v
	}
	return x.c.Context().Value(key)
}

func (x request) SetDecision(d *adapter.Decision) { x.c.Locals(decisionKey{}, d) }

func (x request) Decision() *adapter.Decision {
	d, _ := x.c.Locals(decisionKey{}).(*adapter.Decision)
	return d
}
