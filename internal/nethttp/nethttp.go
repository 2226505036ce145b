// Package nethttp is what the adapters for net/http and for routers on top of it share.
package nethttp

import (
	"context"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// Router reads what only the router knows of a request.
type Router struct {
	Route func(*http.Request) (pattern string, known bool)
	Param func(r *http.Request, name string) string
}

// Config is what the user sets for one middleware.
type Config struct {
	adapter.Options[*http.Request]
	Denied func(http.ResponseWriter, *http.Request, core.Result)
	Failed func(http.ResponseWriter, *http.Request, error)
}

// Key makes a key function for this router of a common one.
func (ro Router) Key(key adapter.KeyFunc) func(*http.Request) (string, error) {
	return adapter.Show(key, func(r *http.Request) adapter.Exchange { return &exchange{r: r, router: &ro} })
}

// CostByContentLength is that of package adapter, for net/http.
func CostByContentLength(bytesPerToken int64, unknown ...int64) func(*http.Request) (int64, error) {
	return adapter.Show(adapter.CostByContentLength(bytesPerToken, unknown...),
		func(r *http.Request) adapter.Exchange { return &exchange{r: r} })
}

// A request's context holds a slot for each limiter, made before the key function runs: what that keeps, the
// limiter sees. slotKey is the key of the nearest slot, keptKey that of what was kept last.
type (
	slotKey struct{}
	keptKey struct{}
)

// FromContext returns the decision about the request whose context ctx is.
func FromContext(ctx context.Context) (core.Result, bool) {
	return adapter.FromContext(ctx.Value(keptKey{}))
}

// New returns the middleware.
func New(limiter *core.Limiter, key func(*http.Request) (string, error), config Config) func(http.Handler) http.Handler {
	engine := adapter.New(limiter, key, config.Options)
	if config.Denied == nil {
		config.Denied = func(w http.ResponseWriter, _ *http.Request, res core.Result) {
			adapter.WriteProblem(w, core.Problem(res))
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := &exchange{w: w, kept: &kept{Context: r.Context()}}
			x.r = r.WithContext(x.kept)
			switch v := engine.Begin(x.r, x); v.Outcome {
			case adapter.Denied:
				config.Denied(w, x.r, v.Result)
			case adapter.Failed:
				if config.Failed != nil {
					config.Failed(w, x.r, v.Err)
				} else {
					adapter.WriteProblem(w, adapter.Refuse(v))
				}
			case adapter.Allowed:
				if !engine.WantsStatus(v) {
					next.ServeHTTP(w, x.r)
					return
				}
				var answer Status
				returned := false
				defer func() { engine.Done(x.r, x, v, answer.Final(returned)) }()
				next.ServeHTTP(answer.Watch(w), x.r)
				returned = true
			case adapter.Skipped:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// exchange shows a request to the engine (w and kept are set) or to a key function (router is set).
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	router *Router
	kept   *kept
}

func (x *exchange) Context() context.Context    { return x.r.Context() }
func (x *exchange) Method() string              { return x.r.Method }
func (x *exchange) Path() string                { return x.r.URL.Path }
func (x *exchange) RemoteAddr() string          { return x.r.RemoteAddr }
func (x *exchange) ContentLength() int64        { return x.r.ContentLength }
func (x *exchange) Header(name string) []string { return adapter.RequestHeader(x.r, name) }
func (x *exchange) Query(name string) string    { return x.r.URL.Query().Get(name) }
func (x *exchange) Param(name string) string    { return x.router.Param(x.r, name) }
func (x *exchange) Value(key any) any           { return x.r.Context().Value(key) }
func (x *exchange) Response() core.HeaderWriter { return x.w.Header() }

// Route is not known to the engine, which does not ask.
func (x *exchange) Route() (pattern string, known bool) { return x.router.Route(x.r) }

func (x *exchange) Kept() *adapter.Decision {
	d, _ := x.r.Context().Value(keptKey{}).(*adapter.Decision)
	return d
}

// Keep does nothing outside of a limiter.
func (x *exchange) Keep(d *adapter.Decision) {
	slot := x.kept
	if slot == nil {
		slot, _ = x.r.Context().Value(slotKey{}).(*kept)
	}
	if slot != nil {
		slot.decision = d
	}
}

// kept is a limiter's slot, nil until something is kept. It is written before the handler runs, by one goroutine.
type kept struct {
	context.Context
	decision *adapter.Decision
}

func (k *kept) Value(key any) any {
	switch key {
	case slotKey{}:
		return k
	case keptKey{}:
		if k.decision != nil {
			return k.decision
		}
	}
	return k.Context.Value(key)
}

func (x *exchange) Cookie(name string) string {
	if c, err := x.r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}
