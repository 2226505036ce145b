package adaptertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// app is what a rule configures the server with.
type app struct {
	use     []limiter // in front of all routes
	route   []limiter // of each route alone
	values  map[string]any
	context func(context.Context) context.Context
	streams bool // bodies are streams
}

// limiter is one middleware.
type limiter struct {
	kind   kind
	policy core.Policy // without limits the limiter is nil
	store  core.Store  // nil is the rule's own
	key    key
	with   option
	and    []limiter // the rules of NewTogether behind the first, which is this limiter itself
	trust  []core.IPOption
}

// kind is what makes a middleware of a limiter.
type kind int

const (
	asNew kind = iota
	asTogether
	asPerIP    // of the policy's limit
	asAllow    // a handler that calls Allow with the header field User, or "all"
	asClientIP // a handler that calls ClientIP
)

// key is a KeyFunc: the extractor by its name.
type key struct {
	by    string
	name  string
	value any             // of ByContextValue
	trust []core.IPOption // of ByIP
	of    []key           // of Join and FirstOf
}

// user is a function of the app: its key is the header field User, or "all". It
// may fail, as the value of the field says: see Kit.fails.
var user = key{by: "function"}

func header(name string) key        { return key{by: "Header", name: name} }
func cookie(name string) key        { return key{by: "Cookie", name: name} }
func query(name string) key         { return key{by: "Query", name: name} }
func param(name string) key         { return key{by: "Param", name: name} }
func global(name string) key        { return key{by: "Global", name: name} }
func ip(trust ...core.IPOption) key { return key{by: "IP", trust: trust} }
func contextValue(k any) key        { return key{by: "ContextValue", value: k} }
func join(keys ...key) key          { return key{by: "Join", of: keys} }
func firstOf(keys ...key) key       { return key{by: "FirstOf", of: keys} }
func together(rules ...limiter) limiter {
	rules[0].kind, rules[0].and = asTogether, rules[1:]
	return rules[0]
}

var none, byMethod, byPath, byRoute = key{by: "nil"}, key{by: "Method"}, key{by: "Path"}, key{by: "Route"}

// option is a set of options. Their functions do what header fields of the
// request say, and note that they were called.
type option int

const (
	withCost            option = 1 << iota // Cost, or 1
	withContentLength                      // a token for each 10 bytes
	withContentLengthOr                    // the same, and 4 for a body of unknown length
	withUnits                              // Words, and without it nil
	withFloor                              // Floor, and without it nil
	withSettle                             // Settle, such as "3 words", and without it nil
	withRefund                             // if the status is at least 400
	withPlan                               // Plan
	withLimits                             // if there is a field Limits, one limit of 5, named own
	withSkip                               // if there is a field Skip
	onDenied                               // answers 418, unless the reply is silent
	onError                                // the same
	badLength                              // CostByContentLength(0)
)

// adapter is what rules see of a [Kit]: its abilities without the framework's
// types, so that the rules are compiled once and not for each framework.
type adapter struct {
	rpc, noFields, netHTTP bool
	problemBody            bool
	hasErrors              bool
	routeKnownInUse        bool
	routesAgain            bool
	routeAdvice            string

	has   func(key) bool // whether the framework has all extractors of a key
	serve func(net.Listener, app, *record) error
}

// adapter returns the adapter that the kit describes.
func (k Kit[C, K, O, R, M]) adapter() adapter {
	return adapter{
		rpc: k.RPC, noFields: k.NoFields, netHTTP: k.NetHTTP, problemBody: k.ProblemBody, hasErrors: k.Error != nil,
		routeKnownInUse: k.RouteKnownInUse, routesAgain: k.RoutesAgain, routeAdvice: k.RouteAdvice,
		has: k.has, serve: k.serve,
	}
}

func (k Kit[C, K, O, R, M]) has(d key) bool {
	lacks := map[string]bool{
		"IP": k.ByIP == nil, "Cookie": k.ByCookie == nil, "Query": k.ByQuery == nil, "Param": k.ByParam == nil,
		"Method": k.ByMethod == nil, "Path": k.ByPath == nil,
	}
	return !lacks[d.by] && !slices.ContainsFunc(d.of, func(d key) bool { return !k.has(d) })
}

// serve makes the app's middleware with the adapter's functions, and serves the
// app on l.
func (k Kit[C, K, O, R, M]) serve(l net.Listener, a app, r *record) error {
	made := App[M]{Values: a.values, Context: a.context, Failed: r.fail, StreamBodies: a.streams, Use: k.install(a.use, r)}
	if made.Context == nil {
		made.Context = func(ctx context.Context) context.Context { return ctx }
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		for _, path := range [][2]string{{"/items/{id}", "/items/:id"}, {"/other", "/other"}} {
			made.Routes = append(made.Routes, Route[M]{method, path[0], path[1], k.install(a.route, r), r.handle})
		}
	}
	made.Routes = append(made.Routes, Route[M]{http.MethodGet, "/free", "/free", nil, r.free})
	return k.Serve(l, made)
}

func (k Kit[C, K, O, R, M]) install(described []limiter, r *record) (chain []M) {
	for _, d := range described {
		l := r.limiter(d)
		switch d.kind {
		case asNew:
			chain = append(chain, k.New(l, k.key(d.key, r), k.options(d.with, r)...))
		case asTogether:
			rules := []R{{Limiter: l, Key: k.key(d.key, r)}}
			for _, other := range d.and {
				rules = append(rules, R{Limiter: r.limiter(other), Key: k.key(other.key, r)})
			}
			chain = append(chain, k.NewTogether(rules, k.options(d.with, r)...))
		case asPerIP:
			chain = append(chain, k.PerIP(d.policy.Limits[0], d.trust...))
		case asAllow:
			chain = append(chain, k.Allow(l, func(c C) string { return userOf(k.Header(c, "User")) }, r.took))
		case asClientIP:
			find := k.ClientIP(d.trust...)
			chain = append(chain, k.Allow(l, func(c C) string { return r.client(find(c)) }, r.took))
		}
	}
	return chain
}

// key makes a key function. It is nil for none.
func (k Kit[C, K, O, R, M]) key(d key, r *record) K {
	var of []K
	for _, one := range d.of {
		of = append(of, k.key(one, r))
	}
	switch d.by {
	case "IP":
		return k.ByIP(d.trust...)
	case "Header":
		return k.ByHeader(d.name)
	case "Cookie":
		return k.ByCookie(d.name)
	case "Query":
		return k.ByQuery(d.name)
	case "Param":
		return k.ByParam(d.name)
	case "ContextValue":
		return k.ByContextValue(d.value)
	case "Method":
		return k.ByMethod()
	case "Path":
		return k.ByPath()
	case "Route":
		return k.ByRoute()
	case "Global":
		return k.Global(d.name)
	case "Join":
		return k.Join(of...)
	case "FirstOf":
		return k.FirstOf(of...)
	case "function":
		return func(c C) (string, error) {
			r.called("key")
			value := k.Header(c, "User")
			return userOf(value), k.fails(value)
		}
	}
	return nil
}

func (k Kit[C, K, O, R, M]) options(with option, r *record) (options []O) {
	field := func(c C, name string) string { r.called(name); return k.Header(c, name) }
	units := func(name, unit string) func(C) (core.Units, error) {
		return func(c C) (core.Units, error) {
			n := field(c, name)
			if n == "" {
				return nil, nil //nolint:nilnil // none
			}
			return core.Units{unit: number(n, 0)}, k.fails(n)
		}
	}
	for option, made := range map[option]func() O{
		withCost: func() O {
			return k.WithCost(func(c C) (int64, error) { return number(field(c, "Cost"), 1), k.fails(k.Header(c, "Cost")) })
		},
		withContentLength:   func() O { return k.WithCost(k.CostByContentLength(10)) },
		withContentLengthOr: func() O { return k.WithCost(k.CostByContentLengthOr(10, 4)) },
		badLength:           func() O { return k.WithCost(k.CostByContentLength(0)) },
		withUnits:           func() O { return k.WithUnits(units("Words", "words")) },
		withFloor:           func() O { return k.WithFloor(units("Floor", core.Requests)) },
		withSettle: func() O {
			stored := k.ByContextValue("app.user")
			return k.WithSettle(func(c C, status int) core.Units {
				value, _ := stored(c)
				return r.settle(status, strings.TrimSpace(k.Header(c, "User")+" "+value), k.Header(c, "Settle"))
			})
		},
		withRefund: func() O { return k.WithRefund(func(_ C, status int) bool { return r.refund(status) }) },
		withPlan: func() O {
			return k.WithPlan(func(c C) (string, error) { plan := field(c, "Plan"); return plan, k.fails(plan) })
		},
		withLimits: func() O {
			return k.WithLimits(func(c C) ([]core.Limit, error) {
				if field(c, "Limits") == "" {
					return nil, nil
				}
				return []core.Limit{slow("own", 5)}, nil
			})
		},
		withSkip: func() O {
			return k.WithSkip(func(c C) bool {
				if k.Cookie != nil {
					r.read(k.Header(c, "S"), k.Cookie(c, "s"), k.Query(c, "s"))
				}
				return field(c, "Skip") != ""
			})
		},
		onDenied: func() O { return k.OnDenied(r.denied) },
		onError:  func() O { return k.OnError(r.failed) },
	} {
		if with&option != 0 {
			options = append(options, made())
		}
	}
	return options
}

// fails returns the error that a value asks for, such as "error inside", or
// nil.
func (k Kit[C, K, O, R, M]) fails(value string) error {
	what, fails := strings.CutPrefix(value, "error ")
	if !fails {
		return nil
	}
	switch what {
	case "none":
		return fmt.Errorf("%w: %w", core.ErrNoKey, errInside)
	case "ended":
		return fmt.Errorf("look up: %w", context.Canceled)
	case "large":
		return fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 1})
	case "inside":
		return errInside
	}
	return fmt.Errorf("login: %w", k.Error(int(number(what, 0)))) // the framework's
}

// userOf is the key of the app's own functions. The string is the framework's.
func userOf(field string) string {
	if field == "" {
		return "all"
	}
	return field
}

// number returns the number in a header field, or without one another.
func number(field string, without int64) int64 {
	if n, err := strconv.ParseInt(field, 10, 64); err == nil {
		return n
	}
	return without
}
