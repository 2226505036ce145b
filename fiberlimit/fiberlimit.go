// Package fiberlimit limits requests in fiber (v2) with token buckets:
//
//	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
//		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
//	}))
//	app := fiber.New()
//	app.Use(fiberlimit.New(limiter, fiberlimit.ByIP()))
package fiberlimit

import (
	"context"
	"errors"

	"github.com/gofiber/fiber/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/internal/fast"
)

// New returns a middleware that lets a request pass when limiter has tokens for its key.
//
// Headers are those of the policy. What does not pass ends with a [fiber.Error], for the app's error
// handler to render: 429 when denied, 400 without a key, 503 or 500 when there is no decision; see
// OnDenied and OnError. [core.Problem] makes a body of a denial. A handler that replaces the whole response, as
// a proxy does, takes the limit's header fields along. New panics with every static mistake in its arguments: a nil limiter or key, and what a key or cost
// function can't be made of, such as a bad address range.
func New(limiter *core.Limiter, key KeyFunc, options ...Option) fiber.Handler {
	var o config
	for _, option := range options {
		if option != nil {
			option(&o)
		}
	}
	o.ErrorStatus = errorStatus
	engine := adapter.New(limiter, fast.Owned(key), o.Options)
	if o.denied == nil {
		o.denied = func(_ *fiber.Ctx, res core.Result) error { return httpError(core.Problem(res)) }
	}
	return func(c *fiber.Ctx) error {
		x := exchange{c}
		v := engine.Begin(c, x)
		switch v.Outcome {
		case adapter.Denied:
			return o.denied(c, v.Result)
		case adapter.Failed:
			switch {
			case o.failed != nil:
				return o.failed(c, v.Err)
			case v.AsIs:
				return v.Err
			}
			return httpError(adapter.Refuse(v))
		case adapter.Allowed:
			if engine.WantsStatus(v) {
				status := fiber.StatusInternalServerError // should the handler panic
				defer func() { engine.Done(c, x, v, status) }()
				err := c.Next()
				if e := (*fiber.Error)(nil); errors.As(err, &e) {
					status = e.Code
				} else if err == nil {
					status = c.Response().StatusCode()
				}
				return err
			}
		case adapter.Skipped:
		}
		return c.Next()
	}
}

func httpError(p core.ProblemDetails) error { return fiber.NewError(p.Status, p.Title) }

// errorStatus is the status of fiber's own errors.
func errorStatus(_ *fiber.Ctx, err error) int {
	if fe := (*fiber.Error)(nil); errors.As(err, &fe) {
		return fe.Code
	}
	return 0
}

type keptKey struct{}

// FromContext returns the decision about the request: of several limiters, the one nearest to the
// handler. Error handlers find a denial too.
func FromContext(c *fiber.Ctx) (core.Result, bool) {
	return adapter.FromContext(c.Locals(keptKey{}))
}

// exchange shows a request to the engine.
type exchange struct{ c *fiber.Ctx }

func (x exchange) Context() context.Context  { return x.c.UserContext() }
func (x exchange) Method() string            { return x.c.Method() }
func (x exchange) Path() string              { return fast.Path(x.c.Context()) }
func (x exchange) Cookie(name string) string { return x.c.Cookies(name) }
func (x exchange) Query(name string) string  { return x.c.Query(name) }
func (x exchange) ContentLength() int64      { return fast.ContentLength(x.c.Context()) }
func (x exchange) RemoteAddr() string        { return fast.RemoteAddr(x.c.Context()) }

// Route is that of the middleware itself, and not known, in what was installed by Use.
func (x exchange) Route() (pattern string, known bool) {
	route := x.c.Route()
	return route.Path, !installedByUse(route)
}

func (x exchange) Param(name string) string {
	return fast.DecodeParam(x.c.Params(name), x.c.App().Config().UnescapePath)
}

func (x exchange) Header(name string) []string {
	return fast.Header(x.c.Context(), name, x.c.App().Config().DisableHeaderNormalizing)
}

func (x exchange) Response() core.HeaderWriter {
	return fast.ResponseHeader{ResponseHeader: &x.c.Response().Header}
}

func (x exchange) Value(key any) any {
	if v := x.c.Locals(key); v != nil {
		return v
	}
	return x.c.UserContext().Value(key)
}

func (x exchange) Keep(d *adapter.Decision) { x.c.Locals(keptKey{}, d) }

func (x exchange) Kept() *adapter.Decision {
	d, _ := x.c.Locals(keptKey{}).(*adapter.Decision)
	return d
}
