// Package nethttp holds what the adapters for net/http and for routers on top
// of it share.
package nethttp

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Middleware returns the middleware of engine. denied and failed are the app's
// own answers, or nil.
func Middleware(
	engine *adapter.Engine[*http.Request],
	denied func(http.ResponseWriter, *http.Request, core.Result),
	failed func(http.ResponseWriter, *http.Request, error),
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := enter(w, r)
			defer leave(r, x.r)
			r = x.r
			switch a := engine.Begin(r, x); a.Verdict {
			case middleware.Denied:
				if denied == nil || silent(w, func(w http.ResponseWriter) { denied(w, r, a.Result()) }) {
					adapter.WriteProblem(w, a.Problem())
				}
			case middleware.Failed:
				if failed == nil || silent(w, func(w http.ResponseWriter) { failed(w, r, a.Err) }) {
					adapter.WriteProblem(w, adapter.Refuse(a))
				}
			case middleware.Allowed:
				if !engine.WantsDone(a) {
					next.ServeHTTP(w, r)
					return
				}
				var written Status
				returned := false
				defer func() { engine.Done(r, a, written.Final(returned)) }()
				next.ServeHTTP(written.Watch(w), r)
				returned = true
			}
		})
	}
}

// Allow decides a request within its handler, and answers it unless it is
// allowed.
func Allow(w http.ResponseWriter, r *http.Request, limiter *core.Limiter, key string) (res core.Result, allowed bool) {
	x := &request{w: w, r: r, slot: slotOf(r.Context())} // a handler can't add a slot to its request
	a := adapter.InHandler[*http.Request](limiter, key).Begin(r, x)
	switch a.Verdict {
	case middleware.Denied:
		adapter.WriteProblem(w, a.Problem())
	case middleware.Failed:
		adapter.WriteProblem(w, adapter.Refuse(a))
	case middleware.Allowed:
	}
	return a.Result(), a.Verdict == middleware.Allowed
}

// silent reports whether answer wrote nothing to the response.
func silent(w http.ResponseWriter, answer func(http.ResponseWriter)) bool {
	var written Status
	answer(written.Watch(w))
	return written.Written() == 0
}

// Router reads what only the router knows of a request.
type Router struct {
	Route func(*http.Request) (pattern string, known bool)
	Param func(r *http.Request, name string) string
}

// Adapt turns a function on a Request, such as a common extractor, into one for
// the requests of a router.
func Adapt[V any](f func(adapter.Request) (V, error), router Router) func(*http.Request) (V, error) {
	return adapter.AdaptPooled(f, adapter.NewPool(func(x *request, r *http.Request) {
		*x = request{r: r, slot: slotOf(r.Context()), router: &router}
	}))
}

// request is a request as the engine (w is set) or a function of the user reads
// it (router is set).
type request struct {
	w      http.ResponseWriter
	r      *http.Request
	slot   *slot // nil outside of a limiter
	router *Router
}

func (x *request) Context() context.Context    { return x.r.Context() }
func (x *request) Method() string              { return x.r.Method }
func (x *request) RemoteAddr() string          { return x.r.RemoteAddr }
func (x *request) LocalAddr() net.Addr         { return adapter.LocalAddr(x.r.Context()) }
func (x *request) ContentLength() int64        { return x.r.ContentLength }
func (x *request) Header(name string) []string { return adapter.RequestHeader(x.r, name) }
func (x *request) Query(name string) string    { return x.r.URL.Query().Get(name) }
func (x *request) Param(name string) string    { return x.router.Param(x.r, name) }
func (x *request) Value(key any) any           { return x.r.Context().Value(key) }
func (x *request) Response() core.HeaderWriter { return x.w.Header() }

// Path returns the path, or "" of a request without a URL, as tests make it for
// ClientIP.
func (x *request) Path() string {
	if x.r.URL == nil {
		return ""
	}
	return x.r.URL.Path
}

func (x *request) Route() (pattern string, known bool) { return x.router.Route(x.r) }

func (x *request) Cookie(name string) string {
	if c, err := x.r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

func (x *request) Decision() *middleware.Decision {
	if x.slot == nil {
		return nil
	}
	return x.slot.decision.Load()
}

func (x *request) SetDecision(d *middleware.Decision) {
	if x.slot != nil {
		x.slot.decision.Store(d)
	}
}

// Stored returns the decision that was stored last about the request whose
// context is ctx, or nil.
func Stored(ctx context.Context) *middleware.Decision {
	if s := slotOf(ctx); s != nil {
		return s.decision.Load()
	}
	return nil
}

// slot is the context of a limited request. Each limiter adds one, before the
// key function runs. decision is what was kept last: by this limiter, by one in
// front, or by Allow. Whoever has the context may read it meanwhile.
//
// It implements context.Context itself: that takes 41 ns and 1 allocation, and
// context.WithValue 94 ns and 2.
type slot struct {
	context.Context
	decision atomic.Pointer[middleware.Decision]
}

type slotKey struct{}

// limited is what a limiter adds to a request besides a slot, in one
// allocation: the copy of the request that has the slot as its context, and how
// the engine sees that copy. The slot stands apart, because whoever keeps a
// context for longer, as a job in the background does, must not keep the
// request.
type limited struct {
	copy http.Request
	read request
}

// enter returns the request that a limiter passes on, as the engine reads it.
func enter(w http.ResponseWriter, r *http.Request) *request {
	s := &slot{Context: r.Context()}
	if outer := slotOf(s.Context); outer != nil {
		s.decision.Store(outer.decision.Load())
	}
	l := new(limited)
	l.copy = *r.WithContext(s) // the compiler has WithContext's own copy on the stack
	l.read = request{w: w, r: &l.copy, slot: s}
	return &l.read
}

// leave passes on to the caller's request what others look for there when it is
// over: the server for files of a form, which it removes, and middleware in
// front for the route and its parameters, which a mux has set. Handlers had a
// copy, and what they have changed in it they would have changed in the
// caller's request.
func leave(request, limited *http.Request) {
	switch {
	case request.Pattern != limited.Pattern:
		*request = *limited.WithContext(request.Context()) // parameters can't be copied alone
	case limited.MultipartForm != nil:
		request.MultipartForm = limited.MultipartForm
	}
}

// slotOf returns the slot of the nearest limiter, or nil.
func slotOf(ctx context.Context) *slot {
	s, _ := ctx.Value(slotKey{}).(*slot)
	return s
}

func (s *slot) Value(key any) any {
	if key == (slotKey{}) {
		return s
	}
	return s.Context.Value(key)
}
