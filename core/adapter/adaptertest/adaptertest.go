// Package adaptertest checks that an adapter for a web framework behaves as the
// adapters of this module do.
//
// An adapter describes itself in a [Kit] and calls [Run] once for each kind of
// store:
//
//	func TestConformance(t *testing.T) {
//		adaptertest.Run(t, kit, func(option store.Option) core.Store {
//			return core.NewMemoryStore(option)
//		})
//	}
//
// The suite is a table of rules. A rule says how the server is configured, what
// the client sends, and what must come back. Its subtest has its name, and
// failures repeat the name. Requests are real HTTP over connections in memory,
// so a rule can choose the address of the connection's peer. A rule that hangs
// in the adapter fails after a minute.
//
// What the engine decides is checked once, in its own tests. The rules here are
// those that an adapter can break.
//
// See [docs/adapters.md].
//
// [docs/adapters.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/adapters.md
package adaptertest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Run checks the adapter that kit describes. newStore returns a new, empty
// store with the given clock. Run calls it for every rule. The clock stands
// still unless a rule moves it, so no rule waits.
func Run[C any, K ~func(C) (string, error), O any, R ~struct {
	Limiter *core.Limiter
	Key     K
}, M any](t *testing.T, kit Kit[C, K, O, R, M], newStore func(option store.Option) core.Store) {
	run(t, kit.adapter(), newStore)
}

// Kit describes an adapter by its own functions. C is what its key functions
// and options receive, K its KeyFunc, O its Option, R its Rule and M what its
// New returns.
type Kit[C any, K ~func(C) (string, error), O any, R ~struct {
	Limiter *core.Limiter
	Key     K
}, M any] struct {
	New         func(*core.Limiter, K, ...O) M
	NewTogether func([]R, ...O) M
	PerIP       func(core.Limit, ...core.IPOption) M // nil in RPC

	// Extractors that the framework has nothing for are nil. Their rules are
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
	// one of C.
	ClientIP func(...core.IPOption) func(C) (string, error)

	// Allow returns a middleware that does what a handler does: it calls the
	// adapter's Allow with limiter and key(c), and then with the Result if it
	// was allowed. If it was not, it ends the request, otherwise it calls the
	// next handler.
	Allow func(limiter *core.Limiter, key func(C) string, then func(core.Result)) M

	WithCost              func(func(C) (int64, error)) O
	CostByContentLength   func(bytesPerToken int64) func(C) (int64, error)          // nil in RPC
	CostByContentLengthOr func(bytesPerToken, unknown int64) func(C) (int64, error) // nil in RPC

	WithUnits  func(func(C) (core.Units, error)) O
	WithFloor  func(func(C) (core.Units, error)) O
	WithSettle func(func(c C, status int) core.Units) O
	WithPlan   func(func(C) (string, error)) O
	WithLimits func(func(C) ([]core.Limit, error)) O
	WithSkip   func(func(C) bool) O
	WithRefund func(func(c C, status int) bool) O
	OnDenied   func(func(core.Result) (status int, body string)) O // answers with status and body; with status 0 it does nothing
	OnError    func(func(error) (status int, body string)) O       // the same

	// Header, Cookie and Query are what the framework gives its handlers: the
	// first value, or "". The string may belong to the framework and be valid
	// only during the request. Cookie and Query are nil in RPC.
	Header, Cookie, Query func(c C, name string) string

	// Error returns the framework's own error for a status. Nil means that the
	// framework has no such errors.
	Error func(status int) error

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
	// NetHTTP says that the framework is on net/http: see Reply.HTTP.
	NetHTTP bool
	// ProblemBody says that refusals are application/problem+json. If it is not
	// set, refusals are errors of the framework, whose status the app's error
	// handler gives to App.Failed.
	ProblemBody bool
	// RouteKnownInUse says that ByRoute and ByParam work in middleware of the
	// whole app, and not only in that of a route.
	RouteKnownInUse bool
	// RoutesAgain says that a handler can give its request to the router again.
	RoutesAgain bool
	// RouteAdvice is what the adapter's ByRoute advises in its warning. It is
	// needed if RouteKnownInUse is not set.
	RouteAdvice string
}

// App is a web application.
type App[M any] struct {
	// Values are stored as the framework's middleware stores values for
	// handlers, in front of any limiter.
	Values map[string]any
	// Context replaces the request's own context, in front of any limiter. It
	// is never nil.
	Context func(context.Context) context.Context
	// Failed is called by the app's error handler, if the framework has one,
	// with the status of an error of the framework. It is never nil.
	Failed func(status int)
	// StreamBodies has the server hand the bodies of requests to handlers as
	// streams, which it has not read yet, if it also can read them before.
	StreamBodies bool
	// Use are limiters of the whole app, the outermost first.
	Use []M
	// Routes are all routes of the app. It must match no other path or method.
	Routes []Route[M]
}

// Route is one route.
type Route[M any] struct {
	Method  string
	Pattern string // as in net/http: /items/{id}
	Colons  string // the same in the other common notation: /items/:id
	// Use are limiters of this route alone, the outermost first.
	Use []M
	// Handle is called by the handler with the request's context and with what
	// FromContext and AllFromContext return. It returns the answer.
	Handle func(ctx context.Context, res core.Result, ok bool, all []core.Result) Reply
}

// ErrNotFound is an error of the app, which its error handler answers with 404.
// It is in Reply.Err.
var ErrNotFound = errors.New("no such row")

// Reply is the answer of a handler.
type Reply struct {
	Status int
	Body   string
	// AsError has the handler report the status as the framework does, such as
	// by returning its HTTP error. Otherwise the handler writes status and
	// body.
	AsError bool
	// Err is what the handler returns, in place of all else here. It is set only
	// if the kit has Error, and not for RPC.
	Err error
	// HTTP answers in place of all else here, if it is not nil. If AsError is
	// set too, a handler that returns errors then returns one of the status. It
	// is set only for frameworks on net/http.
	HTTP http.HandlerFunc
	// Stream has the handler answer with Status and what Stream writes to w.
	// After flush it has reached the client: flush returns an error if the
	// client has gone. It is not set for frameworks on net/http.
	Stream func(w io.Writer, flush func() error)
	// Again has the handler give the request to the router again, for this path.
	// It is set only if the kit says RoutesAgain.
	Again string
	// Hijack has the framework send Status, which is 101, call Hijack
	// afterwards and close conn. It is set only for frameworks that are neither
	// on net/http nor for RPC.
	Hijack func(conn net.Conn)
}
