package adaptertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Kit describes an adapter by its own functions. C is what its key functions
// and options receive, K its KeyFunc, O its Option, R its Rule and M what its
// New returns.
type Kit[C any, K ~func(C) (string, error), O any, R ~struct {
	Limiter *core.Limiter
	Key     K
}, M any] struct {
	New         func(*core.Limiter, K, ...O) M
	NewTogether func([]R, ...O) M
	PerIP       func(...core.Limit) M

	// Extractors that the framework has nothing for return nil. Their rules are
	// left out.
	ByIP           func(...core.IPOption) K
	ByHeader       func(name string) K
	ByCookie       func(name string) K
	ByQuery        func(name string) K
	ByParam        func(name string) K
	ByContextValue func(key any) K
	ByMethod       func() K
	ByPath         func() K
	ByRoute        func() K
	Global         func(name string) K
	Join           func(...K) K
	FirstOf        func(...K) K

	// ClientIP is the adapter's. If that takes a context, it is called with the
	// one of C. It is nil if ByIP returns nil.
	ClientIP func(...core.IPOption) func(C) (string, error)

	// Allow returns a middleware that does what a handler does: it calls the
	// adapter's Allow with limiter and each of keys(c). As soon as one is
	// refused it ends the request, otherwise it calls the next handler. then
	// gets each Result that was allowed.
	Allow func(limiter *core.Limiter, keys func(C) []string, then func(core.Result)) M
	// ReadBody reads up to n bytes of the request's body, as a handler does.
	ReadBody func(c C, n int64)

	// Header, Cookie and Query are what the framework gives its handlers: the
	// first value, or "". The string may belong to the framework and be valid
	// only during the request.
	Header, Cookie, Query func(c C, name string) string

	// Error returns the framework's own error for a status. Nil means that the
	// framework has no such errors.
	Error func(status int) error

	WithCost              func(func(C) (int64, error)) O
	CostByContentLength   func(bytesPerToken int64) func(C) (int64, error)
	CostByContentLengthOr func(bytesPerToken, unknown int64) func(C) (int64, error)

	WithUnits  func(func(C) (core.Units, error)) O
	WithSettle func(func(c C, status int) core.Units) O
	WithPlan   func(func(C) (string, error)) O
	WithLimits func(func(C) ([]core.Limit, error)) O
	WithSkip   func(func(C) bool) O
	WithRefund func(func(c C, status int) bool) O
	OnDenied   func(func(core.Result) (status int, body string)) O // answers with status and body; with status 0 it does nothing
	OnError    func(func(error) (status int, body string)) O       // the same

	// Serve builds app with the framework and then serves it on l until Accept
	// fails. The suite ends it by closing l, and then closes the connections.
	// If building the app panics, Serve panics. The outermost middleware
	// answers panics of handlers with 500.
	Serve func(l net.Listener, app App[M]) error

	// RPC says that this is an interceptor of an RPC framework, and that Serve
	// is a [Gateway]. Rules of what only HTTP has are left out. A handler's
	// answers below 400 are 200.
	RPC bool
	// NoFields says that answers have no header fields of the limits.
	NoFields bool
	// ProblemBody says that refusals are application/problem+json. If it is not
	// set, refusals are errors of the framework, and the app's error handler
	// writes their status into ErrorHeader.
	ProblemBody bool
	// RouteKnownInUse says that ByRoute works in middleware of the whole app,
	// and not only in that of a route.
	RouteKnownInUse bool
	// RouteAdvice is what the adapter's ByRoute advises in its warning. It is
	// needed if RouteKnownInUse is not set.
	RouteAdvice string
	// ParamKnownInUse says that ByParam works in middleware of the whole app.
	ParamKnownInUse bool
	// Streams says that a handler can send a part of its answer before it
	// returns.
	Streams bool
	// ContextEnds says that the context of a request ends when its client goes.
	ContextEnds bool
	// ClosesAtOnce says that the server closes a connection with an unread body
	// without waiting for what the client still sends. Then that client, or a
	// proxy that still sends, may not see its refusal.
	ClosesAtOnce bool
}

// App is a web application.
type App[M any] struct {
	// Value is stored under ValueKey, as the framework's middleware stores
	// values for handlers, in front of any limiter. Nil means no value.
	Value any
	// Context replaces the request's own context, in front of any limiter. It
	// is never nil.
	Context func(context.Context) context.Context
	// StreamBodies has the server hand the bodies of requests to handlers as
	// streams, which it has not read yet, if it also can read them before.
	StreamBodies bool
	// Timeout has a timeout middleware in front of everything else: it answers
	// a request that takes longer with an error, while the handler goes on. 0
	// means none.
	Timeout time.Duration
	// Use are limiters of the whole app, the outermost first.
	Use []M
	// Routes are all routes of the app. It must match no other path or method.
	Routes []Route[M]
}

// Route is one route.
type Route[M any] struct {
	Method  string
	Pattern string // as in net/http: /items/{id}
	// Use are limiters of this route alone, the outermost first.
	Use []M
	// Handle is called with the request's context and returns the answer.
	Handle func(context.Context) Reply
}

// Reply is the answer of a handler.
type Reply struct {
	Status int
	// AsError has the handler report the status as the framework does, such as
	// by returning its HTTP error. Otherwise the handler writes the status, the
	// header field AllHeader with [All] of what AllFromContext returns, and as
	// the body [Body] of what FromContext returns.
	AsError bool
	// Aborts has the handler write Status and a body, flush them and panic with
	// [http.ErrAbortHandler], as a reverse proxy does if its upstream hangs up.
	// It is used only if the kit sets Streams.
	Aborts bool
	// Stream has the handler answer with Status and what Stream writes to w.
	// After flush it has reached the client: flush returns an error if the
	// client has gone. The handler ends when Stream returns. Where handlers
	// can't write before they return, the framework calls Stream afterwards.
	Stream func(w io.Writer, flush func() error)
	// Hijack has the handler take over the connection. Hijack writes the answer
	// to conn. The handler returns when Hijack does. Where handlers can't take
	// it over before they return, the framework sends Status 101, calls Hijack
	// afterwards and closes conn.
	Hijack func(conn net.Conn)
	// Closed has the handler take over the connection and close it before it
	// returns.
	Closed bool
	// Proxy has the handler pass the request on to it. It is used only if the
	// kit sets Streams.
	Proxy http.Handler
	// Decided is called by the handler, in front of everything else, with what
	// FromContext returns. Nil does nothing.
	Decided func(res core.Result, ok bool)
	// Hints has the handler write the status 103 before its answer. It is used
	// only if the kit sets Streams.
	Hints bool
	// Flushes has the handler flush before it has written anything, which sends
	// status 200, and panic. It is used only if the kit sets Streams.
	Flushes bool
}

// ValueKey is the key of App.Value. It is a string.
var ValueKey any = "adaptertest.value"

// ErrorHeader is the response header field that an app's error handler sets to
// the status of the framework's error.
const ErrorHeader = "App-Error"

// AllHeader is the response header field that handlers set to [All] of what
// AllFromContext returned.
const AllHeader = "App-All"

// All returns the value of AllHeader.
func All(results []core.Result) string {
	var list []string
	for _, res := range results {
		name := "none"
		if limits := res.Limits(); len(limits) > 0 {
			name = limits[0].Limit.Name
		}
		list = append(list, fmt.Sprint(name, " ", res.Remaining))
	}
	return strings.Join(list, ", ")
}

// Body returns the body of a handler's answer. Its arguments are what
// FromContext returned.
func Body(res core.Result, ok bool) string {
	if !ok {
		return "no result"
	}
	return fmt.Sprintf("remaining %d of %d limits, from %v", res.Remaining, len(res.Limits()), res.Source)
}

// Colons returns a pattern in the other common notation: /items/:id.
func Colons(pattern string) string {
	return strings.ReplaceAll(strings.ReplaceAll(pattern, "{", ":"), "}", "")
}

// Timed is h behind a timeout middleware if a sets Timeout. It is for
// frameworks on net/http.
func (a App[M]) Timed(h http.Handler) http.Handler {
	if a.Timeout == 0 {
		return h
	}
	return http.TimeoutHandler(h, a.Timeout, "")
}

// Decide calls Decided, if r sets it, with what FromContext returned.
func (r Reply) Decide(res core.Result, ok bool) {
	if r.Decided != nil {
		r.Decided(res, ok)
	}
}

// Send writes to w if r sets Stream, Hijack, Closed, Proxy, Aborts or Flushes;
// after the latter two it panics. Otherwise it returns true: the handler must
// answer the way its framework does. It is for frameworks on net/http.
func (r Reply) Send(w http.ResponseWriter, req *http.Request) (mustAnswer bool) {
	if r.Hints {
		w.WriteHeader(http.StatusEarlyHints)
	}
	switch {
	case r.Hijack != nil || r.Closed:
		conn, _, err := http.NewResponseController(w).Hijack()
		switch {
		case err != nil:
			panic(err)
		case r.Closed:
			_ = conn.Close()
		default:
			r.Hijack(conn)
		}
		return false
	case r.Proxy != nil:
		r.Proxy.ServeHTTP(w, req)
		return false
	case r.Stream != nil:
		w.WriteHeader(r.Status)
		r.Stream(w, http.NewResponseController(w).Flush)
		return false
	case r.Aborts:
		w.WriteHeader(r.Status)
		_, _ = io.WriteString(w, "begun")
	case !r.Flushes:
		return true
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(err)
	}
	panic(http.ErrAbortHandler)
}
