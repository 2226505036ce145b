package adaptertest

import (
	"net"
	"net/http"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core"
)

// anyKey is a KeyFunc of the framework, or nil.
type anyKey any

// anyOption is an Option of the framework.
type anyOption any

// adapter is what rules see of a [Kit]: its functions without the framework's
// types, so that the rules are compiled once and not for each framework. Where
// the kit's take the framework's request, those of an adapter take a [Header].
type adapter struct {
	ByIP                                  func(...core.IPOption) anyKey
	ByHeader, ByCookie, ByQuery, ByParam  func(name string) anyKey
	ByContextValue                        func(key any) anyKey
	ByMethod, ByPath, ByRoute             func() anyKey
	Global                                func(name string) anyKey
	Join, FirstOf                         func(...anyKey) anyKey
	Custom                                func(func(Header) (string, error)) anyKey // turns a function into a key function
	ReadHeader, ReadCookie, ReadQuery     func(name string) anyKey                  // key functions whose keys are what handlers read
	Error                                 func(status int) error
	WithCost                              func(func(Header) (int64, error)) anyOption
	CostByContentLength                   func(bytesPerToken int64) anyOption
	CostByContentLengthOr                 func(bytesPerToken, unknown int64) anyOption
	WithUnits                             func(func(Header) (core.Units, error)) anyOption
	WithSettle                            func(func(r Header, status int) core.Units) anyOption
	WithPlan                              func(func(Header) (string, error)) anyOption
	WithLimits                            func(func(Header) ([]core.Limit, error)) anyOption
	WithSkip                              func(func(Header) bool) anyOption
	WithRefund                            func(func(r Header, status int) bool) anyOption
	OnDenied                              func(func(core.Result) (status int, body string)) anyOption
	OnError                               func(func(error) (status int, body string)) anyOption
	Serve                                 func(l net.Listener, app App[middleware]) error
	RouteAdvice                           string
	RPC, NoFields                         bool
	ProblemBody, RouteKnownInUse          bool
	ParamKnownInUse, Streams, ContextEnds bool
	ClosesAtOnce                          bool
}

// known returns what a status becomes in the framework's terms.
func (a adapter) known(status int) int {
	if a.RPC && 0 < status && status < 400 {
		return http.StatusOK
	}
	return status
}

// Header returns the first value of a request header field, or "". The string
// may belong to the framework and be valid only during the call.
type Header func(name string) string

// middleware is one middleware, as passed to New, NewTogether or PerIP.
type middleware struct {
	Limiter *core.Limiter
	Key     anyKey
	Options []anyOption
	// Together are the rules of NewTogether. If it is nil, the middleware is
	// that of New. Otherwise Limiter and Key are not used, and the list may be
	// empty.
	Together []rule
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
type rule struct {
	Limiter *core.Limiter
	Key     anyKey
}

// adapter returns the adapter that the kit describes.
func (k Kit[C, K, O, R, M]) adapter() adapter {
	header := func(c C) Header { return func(name string) string { return k.Header(c, name) } }
	read := func(value func(C, string) string) func(string) K {
		return func(name string) K { return func(c C) (string, error) { return value(c, name), nil } }
	}
	return adapter{
		ByIP: variadic(k.ByIP), ByHeader: unary(k.ByHeader), ByCookie: unary(k.ByCookie), ByQuery: unary(k.ByQuery), ByParam: unary(k.ByParam),
		ByContextValue: unary(k.ByContextValue), ByMethod: nullary(k.ByMethod), ByPath: nullary(k.ByPath), ByRoute: nullary(k.ByRoute),
		Global: unary(k.Global), Join: composed(k.Join), FirstOf: composed(k.FirstOf),
		ReadHeader: unary(read(k.Header)), ReadCookie: unary(read(k.Cookie)), ReadQuery: unary(read(k.Query)),
		Custom: func(key func(Header) (string, error)) anyKey {
			return K(func(c C) (string, error) { return key(header(c)) })
		},
		WithCost: func(cost func(Header) (int64, error)) anyOption {
			return k.WithCost(func(c C) (int64, error) { return cost(header(c)) })
		},
		CostByContentLength:   func(per int64) anyOption { return k.WithCost(k.CostByContentLength(per)) },
		CostByContentLengthOr: func(per, unknown int64) anyOption { return k.WithCost(k.CostByContentLengthOr(per, unknown)) },
		WithUnits: func(units func(Header) (core.Units, error)) anyOption {
			return k.WithUnits(func(c C) (core.Units, error) { return units(header(c)) })
		},
		WithSettle: func(settle func(Header, int) core.Units) anyOption {
			return k.WithSettle(func(c C, status int) core.Units { return settle(header(c), status) })
		},
		WithPlan: func(plan func(Header) (string, error)) anyOption {
			return k.WithPlan(func(c C) (string, error) { return plan(header(c)) })
		},
		WithLimits: func(limits func(Header) ([]core.Limit, error)) anyOption {
			return k.WithLimits(func(c C) ([]core.Limit, error) { return limits(header(c)) })
		},
		WithSkip: func(skip func(Header) bool) anyOption {
			return k.WithSkip(func(c C) bool { return skip(header(c)) })
		},
		WithRefund: func(refund func(Header, int) bool) anyOption {
			return k.WithRefund(func(c C, status int) bool { return refund(header(c), status) })
		},
		OnDenied: func(answer func(core.Result) (int, string)) anyOption { return k.OnDenied(answer) },
		OnError:  func(answer func(error) (int, string)) anyOption { return k.OnError(answer) },
		Error:    k.Error, Serve: k.serve,
		RPC: k.RPC, NoFields: k.NoFields, ProblemBody: k.ProblemBody, RouteKnownInUse: k.RouteKnownInUse, RouteAdvice: k.RouteAdvice, ParamKnownInUse: k.ParamKnownInUse,
		Streams: k.Streams, ContextEnds: k.ContextEnds, ClosesAtOnce: k.ClosesAtOnce,
	}
}

// erased is key, or nil if the framework has nothing for it.
func erased[C any, K ~func(C) (string, error)](key K) anyKey {
	if key == nil {
		return nil
	}
	return key
}

func nullary[C any, K ~func(C) (string, error)](extractor func() K) func() anyKey {
	return func() anyKey { return erased(extractor()) }
}

func unary[C, A any, K ~func(C) (string, error)](extractor func(A) K) func(A) anyKey {
	return func(arg A) anyKey { return erased(extractor(arg)) }
}

func variadic[C, A any, K ~func(C) (string, error)](extractor func(...A) K) func(...A) anyKey {
	return func(args ...A) anyKey { return erased(extractor(args...)) }
}

// composed is compose, except that the framework lacks what is composed of a
// key that it lacks.
func composed[C any, K ~func(C) (string, error)](compose func(...K) K) func(...anyKey) anyKey {
	return func(keys ...anyKey) anyKey {
		if absent(keys...) {
			return nil
		}
		return erased(compose(typed[K](keys)...))
	}
}

// absent reports whether the framework lacks one of the keys.
func absent(keys ...anyKey) bool { return slices.Contains(keys, nil) }

// typed returns keys or options as the adapter has them.
func typed[T, A any](list []A) []T {
	var of []T
	for _, one := range list {
		t, _ := any(one).(T) // nil stays nil
		of = append(of, t)
	}
	return of
}

// serve makes the app's middleware with the adapter's functions, and serves the
// app.
func (k Kit[C, K, O, R, M]) serve(l net.Listener, app App[middleware]) error {
	made := App[M]{Value: app.Value, Context: app.Context, StreamBodies: app.StreamBodies, Timeout: app.Timeout, Use: k.install(app.Use)}
	for _, r := range app.Routes {
		made.Routes = append(made.Routes, Route[M]{r.Method, r.Pattern, k.install(r.Use), r.Handle})
	}
	return k.Serve(l, made)
}

func (k Kit[C, K, O, R, M]) install(described []middleware) (chain []M) {
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
				key, _ := r.Key.(K) // nil stays nil
				rules[i] = R{Limiter: r.Limiter, Key: key}
			}
			chain = append(chain, k.NewTogether(rules, typed[O](m.Options)...))
		default:
			key, _ := m.Key.(K)
			chain = append(chain, k.New(m.Limiter, key, typed[O](m.Options)...))
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
