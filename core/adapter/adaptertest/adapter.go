package adaptertest

import (
	"net"
	"net/http"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// adapter is what rules see of a [Kit]: its functions without the framework's
// types. Where these take the framework's request, those of an adapter take a
// [Header].
type adapter[K, O any] struct {
	ByIP                                  func(...core.IPOption) K
	ByHeader, ByCookie, ByQuery, ByParam  func(name string) K
	ByContextValue                        func(key any) K
	ByMethod, ByPath, ByRoute             func() K
	Global                                func(name string) K
	Join, FirstOf                         func(...K) K
	Custom                                func(func(Header) (string, error)) K // turns a function into a key function
	ReadHeader, ReadCookie, ReadQuery     func(name string) K                  // key functions whose keys are what handlers read
	Error                                 func(status int) error
	WithCost                              func(func(Header) (int64, error)) O
	CostByContentLength                   func(bytesPerToken int64) O
	CostByContentLengthOr                 func(bytesPerToken, unknown int64) O
	WithUnits                             func(func(Header) (core.Units, error)) O
	WithSettle                            func(func(r Header, status int) core.Units) O
	WithPlan                              func(func(Header) (string, error)) O
	WithLimits                            func(func(Header) ([]core.Limit, error)) O
	WithSkip                              func(func(Header) bool) O
	WithRefund                            func(func(r Header, status int) bool) O
	OnDenied                              func(func(core.Result) (status int, body string)) O
	OnError                               func(func(error) (status int, body string)) O
	Serve                                 func(l net.Listener, app App[middleware[K, O]]) error
	RouteAdvice                           string
	RPC, NoFields                         bool
	ProblemBody, RouteKnownInUse          bool
	absent                                func(...K) bool // whether the framework lacks one of these keys
	ParamKnownInUse, Streams, ContextEnds bool
	ClosesAtOnce                          bool
}

// known returns what a status becomes in the framework's terms.
func (a adapter[K, O]) known(status int) int {
	if a.RPC && 0 < status && status < 400 {
		return http.StatusOK
	}
	return status
}

// Header returns the first value of a request header field, or "". The string
// may belong to the framework and be valid only during the call.
type Header func(name string) string

// middleware is one middleware, as passed to New, NewTogether or PerIP.
type middleware[K, O any] struct {
	Limiter *core.Limiter
	Key     K
	Options []O
	// Together are the rules of NewTogether. If it is nil, the middleware is
	// that of New. Otherwise Limiter and Key are not used, and the list may be
	// empty.
	Together []rule[K]
	// PerIP are the limits of PerIP. If it is not nil, the middleware is that
	// of PerIP, and nothing else here is used.
	PerIP []core.Limit
	// Handler asks Limiter from within a handler. If it is not nil, only it and
	// Limiter are used.
	Handler *handler
}

// handler is what stands in place of a middleware and calls Allow.
type handler struct {
	reads int64                 // so many bytes of the request's body before
	keys  func(Header) []string // it calls Allow with each
	then  func(core.Result)     // is called with each Result that was allowed; may be nil

	client func(ip string, err error) (key string) // takes the place of keys if it is not nil: it gets what ClientIP returns
	trust  []core.IPOption                         // of ClientIP
}

// rule is one of the rules of NewTogether.
type rule[K any] struct {
	Limiter *core.Limiter
	Key     K
}

// adapter returns the adapter that the kit describes.
func (k Kit[C, K, O, R, M]) adapter() adapter[K, O] {
	header := func(c C) Header { return func(name string) string { return k.Header(c, name) } }
	read := func(value func(C, string) string) func(string) K {
		return func(name string) K { return func(c C) (string, error) { return value(c, name), nil } }
	}
	return adapter[K, O]{
		ByIP: k.ByIP, ByHeader: k.ByHeader, ByCookie: k.ByCookie, ByQuery: k.ByQuery, ByParam: k.ByParam,
		ByContextValue: k.ByContextValue, ByMethod: k.ByMethod, ByPath: k.ByPath, ByRoute: k.ByRoute,
		Global: k.Global, Join: unlessAbsent[C](k.Join), FirstOf: unlessAbsent[C](k.FirstOf), absent: absent[C, K],
		ReadHeader: read(k.Header), ReadCookie: read(k.Cookie), ReadQuery: read(k.Query),
		Custom: func(key func(Header) (string, error)) K {
			return func(c C) (string, error) { return key(header(c)) }
		},
		WithCost: func(cost func(Header) (int64, error)) O {
			return k.WithCost(func(c C) (int64, error) { return cost(header(c)) })
		},
		CostByContentLength:   func(per int64) O { return k.WithCost(k.CostByContentLength(per)) },
		CostByContentLengthOr: func(per, unknown int64) O { return k.WithCost(k.CostByContentLengthOr(per, unknown)) },
		WithUnits: func(units func(Header) (core.Units, error)) O {
			return k.WithUnits(func(c C) (core.Units, error) { return units(header(c)) })
		},
		WithSettle: func(settle func(Header, int) core.Units) O {
			return k.WithSettle(func(c C, status int) core.Units { return settle(header(c), status) })
		},
		WithPlan: func(plan func(Header) (string, error)) O {
			return k.WithPlan(func(c C) (string, error) { return plan(header(c)) })
		},
		WithLimits: func(limits func(Header) ([]core.Limit, error)) O {
			return k.WithLimits(func(c C) ([]core.Limit, error) { return limits(header(c)) })
		},
		WithSkip: func(skip func(Header) bool) O {
			return k.WithSkip(func(c C) bool { return skip(header(c)) })
		},
		WithRefund: func(refund func(Header, int) bool) O {
			return k.WithRefund(func(c C, status int) bool { return refund(header(c), status) })
		},
		OnDenied: k.OnDenied, OnError: k.OnError, Error: k.Error, Serve: k.serve,
		RPC: k.RPC, NoFields: k.NoFields, ProblemBody: k.ProblemBody, RouteKnownInUse: k.RouteKnownInUse, RouteAdvice: k.RouteAdvice, ParamKnownInUse: k.ParamKnownInUse,
		Streams: k.Streams, ContextEnds: k.ContextEnds, ClosesAtOnce: k.ClosesAtOnce,
	}
}

func absent[C any, K ~func(C) (string, error)](keys ...K) bool {
	return slices.ContainsFunc(keys, func(key K) bool { return key == nil })
}

// unlessAbsent is compose, except that the framework lacks what is composed of
// a key that it lacks.
func unlessAbsent[C any, K ~func(C) (string, error)](compose func(...K) K) func(...K) K {
	return func(keys ...K) K {
		if absent(keys...) {
			return nil
		}
		return compose(keys...)
	}
}

// serve makes the app's middleware with the adapter's functions, and serves the
// app.
func (k Kit[C, K, O, R, M]) serve(l net.Listener, app App[middleware[K, O]]) error {
	made := App[M]{Value: app.Value, Context: app.Context, StreamBodies: app.StreamBodies, Timeout: app.Timeout, Use: k.install(app.Use)}
	for _, r := range app.Routes {
		made.Routes = append(made.Routes, Route[M]{r.Method, r.Pattern, k.install(r.Use), r.Handle})
	}
	return k.Serve(l, made)
}

func (k Kit[C, K, O, R, M]) install(described []middleware[K, O]) (chain []M) {
	for _, m := range described {
		switch {
		case m.PerIP != nil:
			chain = append(chain, k.PerIP(m.PerIP...))
		case m.Handler != nil:
			then := m.Handler.then
			if then == nil {
				then = func(core.Result) {}
			}
			chain = append(chain, k.Allow(m.Limiter, k.keys(m.Handler), then))
		case m.Together != nil:
			rules := make([]R, len(m.Together))
			for i, r := range m.Together {
				rules[i] = R(r)
			}
			chain = append(chain, k.NewTogether(rules, m.Options...))
		default:
			chain = append(chain, k.New(m.Limiter, m.Key, m.Options...))
		}
	}
	return chain
}

// keys returns the function that tells the handler h its keys.
func (k Kit[C, K, O, R, M]) keys(h *handler) func(C) []string {
	if h.client != nil {
		find := k.ClientIP(h.trust...)
		return func(c C) []string { return []string{h.client(find(c))} }
	}
	return func(c C) []string {
		if h.reads > 0 {
			k.ReadBody(c, h.reads)
		}
		return h.keys(func(name string) string { return k.Header(c, name) })
	}
}
