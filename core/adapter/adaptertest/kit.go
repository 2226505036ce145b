package adaptertest

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Kit is an adapter: its own functions, with the framework's request where the adapter has it shown
// as a [Header]. K is its KeyFunc and O its Option.
type Kit[K, O any] struct {
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
	Custom         func(func(Header) (string, error)) K // a key function of the user's own

	// ReadHeader, ReadCookie and ReadQuery are key functions that return what the framework gives its handlers.
	ReadHeader, ReadCookie, ReadQuery func(name string) K

	// Error makes the framework's own error of a status, for its error handler. Nil says that it has none.
	Error func(status int) error

	WithCost func(func(Header) (int64, error)) O
	// CostByContentLength is the adapter's, set by its WithCost.
	CostByContentLength func(bytesPerToken int64, unknown ...int64) O

	WithLimits func(func(Header) ([]core.Limit, error)) O
	WithSkip   func(func(Header) bool) O
	WithRefund func(func(r Header, status int) bool) O
	OnDenied   func(func(core.Result) (status int, body string)) O // answers with status and body
	OnError    func(func(error) (status int, body string)) O

	// Serve builds app with the framework and serves it on l until Accept fails, which it does once
	// the suite closes l. The suite then closes the connections as well. Building comes first: a
	// panic there is a panic of Serve. The outermost middleware answers panics of handlers with 500.
	Serve func(l net.Listener, app App[K, O]) error

	// ProblemBody says that refusals are application/problem+json. Otherwise they are the
	// framework's own errors, and the app's error handler writes their status into ErrorHeader.
	ProblemBody bool
	// RouteKnownInUse says that ByRoute works in middleware of the whole app, not only in that of a
	// route.
	RouteKnownInUse bool
	// RouteAdvice is what the warning says of a ByRoute that can't know its route, where RouteKnownInUse is false.
	RouteAdvice string
	// ParamKnownInUse says so of ByParam.
	ParamKnownInUse bool
	// Streams says that a handler's answer can be on its way before the handler has ended.
	Streams bool
	// ContextEnds says that a request's context ends when its client goes.
	ContextEnds bool
}

// Header returns the first value of a request header field, or "". The string may be the framework's
// own, valid only during the call.
type Header func(name string) string

// App is a web application.
type App[K, O any] struct {
	// Value is left under ValueKey, the way the framework's own middleware leaves values for
	// handlers, before any limiter. Nil is nothing.
	Value any
	// Context changes the request's own context, before any limiter. It is never nil.
	Context func(context.Context) context.Context
	// Use are limiters of the whole app, the outermost first.
	Use []Limiter[K, O]
	// Routes are all the app has: no path or method is to be matched besides.
	Routes []Route[K, O]
}

// Limiter is one middleware, as passed to New.
type Limiter[K, O any] struct {
	Limiter *core.Limiter
	Key     K
	Options []O
}

// Route is one route.
type Route[K, O any] struct {
	Method  string
	Pattern string // as in net/http: /items/{id}
	// Use are limiters of this route alone, the outermost first.
	Use []Limiter[K, O]
	// Handle is called with the request's context and tells how to answer.
	Handle func(context.Context) Reply
}

// Reply is what a handler answers.
type Reply struct {
	Status int
	// AsError reports the status the framework's way, such as by returning its HTTP error. Otherwise
	// the handler writes it, with Body of what FromContext tells.
	AsError bool
	// Aborts has the handler write Status and a body, flush it, and then panic with [http.ErrAbortHandler],
	// as a reverse proxy does whose upstream hangs up. Only kits with Streams get it.
	Aborts bool
	// Flushes has the handler flush before it has written anything, which sends Status 200, and then panic.
	// Only kits with Streams get it.
	Flushes bool
}

// ValueKey is where App.Value is left: a string.
var ValueKey any = "adaptertest.value"

// ErrorHeader is the response header field in which an app's error handler tells the status of the
// framework's error.
const ErrorHeader = "App-Error"

// Body is the body of a handler's answer. Its arguments are what FromContext returned.
func Body(res core.Result, ok bool) string {
	if !ok {
		return "no result"
	}
	return fmt.Sprintf("remaining %d of %d limits, from %v", res.Remaining, len(res.Limits()), res.Source)
}

// Colons is a pattern in the other common notation: /items/:id.
func Colons(pattern string) string {
	return strings.ReplaceAll(strings.ReplaceAll(pattern, "{", ":"), "}", "")
}
