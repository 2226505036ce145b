package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// noKey checks requests that have no usable key.
func (s *suite) noKey() {
	s.missingKeys()
	s.noKeyLogged()
}

// missingKeys checks requests without a usable key.
func (s *suite) missingKeys() {
	k := s.kit
	missing, failed := http.StatusBadRequest, http.StatusInternalServerError
	failingKey := k.Custom(func(Header) (string, error) { return "", errSecret })
	emptyKey := k.Custom(func(Header) (string, error) { return "", nil })
	for _, trouble := range []struct {
		rule   string
		key    anyKey
		status int
		visit  visit
	}{
		{"a missing header is 400", k.ByHeader("User"), missing, visit{}},
		{"an empty header is a missing one", k.ByHeader("User"), missing, visit{request: request{header: header("User", "")}}},
		{"a missing cookie is 400", k.ByCookie("session"), missing, visit{request: request{header: header("Cookie", "sessions=1")}}},
		{"an empty cookie is a missing one", k.ByCookie("session"), missing, visit{request: request{header: header("Cookie", "session=")}}},
		{"a missing query parameter is 400", k.ByQuery("q"), missing, visit{request: request{target: "/other?r=1"}}},
		{"an empty query parameter is a missing one", k.ByQuery("q"), missing, visit{request: request{target: "/other?q="}}},
		{"a missing parameter of the route is 400", k.ByParam("nosuch"), missing, visit{request: request{target: "/items/1"}}},
		{"a missing context value is 400", k.ByContextValue(ValueKey), missing, visit{}},
		{"an empty context value is a missing one", k.ByContextValue(ValueKey), missing, visit{value: ""}},
		{"a nil pointer as context value is a missing one", k.ByContextValue(ValueKey), missing, visit{value: (*named)(nil)}},
		{"a peer without an address is 400", k.ByIP(), missing, visit{request: request{peer: "@"}}},
		{"an empty key from a custom key function is a missing one", emptyKey, missing, visit{}},
		{"an error that wraps ErrNoKey is 400", k.Custom(func(Header) (string, error) {
			return "", fmt.Errorf("%w: %w", core.ErrNoKey, errSecret)
		}), missing, visit{}},
		{"any other error of a key function is 500", failingKey, failed, visit{}},
		{"a key that is returned with an error does not count", k.Custom(func(Header) (string, error) { return "ann", errSecret }), failed, visit{}},
		{"Join with a missing key is 400", k.Join(k.ByIP(), k.ByHeader("User")), missing, visit{}},
		{"Join with an empty key is 400", k.Join(k.ByIP(), emptyKey), missing, visit{}},
		{"Join with a failing key is 500", k.Join(k.ByIP(), failingKey), failed, visit{}},
		{"a header that came twice with different values is 400", k.ByHeader("User"), missing,
			visit{request: request{header: header("User", "ann", "User", "bob")}}},
		{"an empty header before another value is 400", k.ByHeader("User"), missing, visit{request: request{header: header("User", "", "User", "bob")}}},
		{"Basic credentials that are not base64 are 400", k.ByHeader("Authorization"), missing, visit{request: request{header: header("Authorization", "Basic a.b")}}},
		{"FirstOf stops at Basic credentials that are not base64", k.FirstOf(k.ByHeader("Authorization"), k.ByIP()), missing,
			visit{request: request{header: header("Authorization", "basic YW5u OjE=")}}},
		{"FirstOf stops at a header that came twice", k.FirstOf(k.ByHeader("User"), k.ByIP()), missing,
			visit{request: request{header: header("User", "ann", "User", "bob")}}},
		{"FirstOf without any key is 400", k.FirstOf(k.ByHeader("User"), k.ByCookie("session"), emptyKey), missing, visit{}},
		{"FirstOf stops at a failing key: 500", k.FirstOf(failingKey, k.ByIP()), failed, visit{}},
	} {
		if absent(trouble.key) {
			continue
		}
		s.rule(trouble.rule, func(c *trial) {
			trouble.visit.key = trouble.key
			for range 2 {
				c.wantRefusal(c.open(trouble.visit, inRoute, middleware{Limiter: c.holding(1)})(), trouble.status, "the request")
			}
		})
	}
}

// noKeyLogged checks that a missing key is logged.
func (s *suite) noKeyLogged() {
	k := s.kit
	s.rule("each middleware logs once that a key is missing, and which", func(c *trial) {
		log := logtest.Capture(func() {
			for range 2 {
				app := c.use(c.holding(1), k.FirstOf(k.ByHeader("User"), k.ByHeader("Session")))
				for range 3 {
					c.wantRefusal(app.send(request{target: "/items/1"}), http.StatusBadRequest, "a request without a key")
				}
			}
		})
		path := "/items/1"
		if k.RPC {
			path = "path="
		}
		for _, want := range []string{"no usable key", `no header \"user\"`, `no header \"session\"`, "policy=test", path} {
			if n := strings.Count(log, want); n != 2 {
				c.errorf("two middlewares logged %q %d times in total, want 2: %s", want, n, log)
			}
		}
	})
}

// clientErrors checks errors of the client that the framework or net/http
// define.
func (s *suite) clientErrors() {
	s.frameworkErrors()
	s.clientsFault()
}

// frameworkErrors checks errors of the framework's own.
func (s *suite) frameworkErrors() {
	k := s.kit
	if k.Error != nil {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity} {
			for where, returning := range map[string]func(error) (anyKey, []anyOption){
				"key": func(err error) (anyKey, []anyOption) {
					return k.Custom(func(Header) (string, error) { return "", err }), nil
				},
				"cost": func(err error) (anyKey, []anyOption) {
					return k.Global("all"), []anyOption{k.WithCost(func(Header) (int64, error) { return 0, err })}
				},
				"limits": func(err error) (anyKey, []anyOption) {
					return k.Global("all"), []anyOption{k.WithLimits(func(Header) ([]core.Limit, error) { return nil, err })}
				},
			} {
				for _, wrapped := range []bool{false, true} {
					s.rule(fmt.Sprintf("a client error of the framework is answered as it is and not logged (%s function, %d, wrapped: %v)", where, status, wrapped), func(c *trial) {
						err := k.Error(status)
						if wrapped {
							err = fmt.Errorf("login: %w", err)
						}
						key, options := returning(err)
						log := logtest.Capture(func() {
							app := c.serve(c.app(answer(http.StatusOK), middleware{c.holding(1), key, options, nil, nil, nil}))
							for range 2 {
								c.wantRefusal(app.send(request{}), status, "the request")
							}
						})
						if log != "" {
							c.errorf("clients can flood the log: %s", log)
						}
					})
				}
			}
		}
		s.rule("OnError gets a client error too", func(c *trial) {
			key := k.Custom(func(Header) (string, error) { return "", k.Error(http.StatusUnauthorized) })
			app := c.use(c.holding(1), key, k.OnError(func(error) (int, string) { return http.StatusTeapot, "mine" }))
			c.wantStatus(app.send(request{}), http.StatusTeapot, "the request")
		})
		s.rule("a server error of the framework is 500 and logged", func(c *trial) {
			key := k.Custom(func(Header) (string, error) { return "", k.Error(http.StatusBadGateway) })
			log := logtest.Capture(func() {
				c.wantRefusal(c.use(c.holding(1), key).send(request{}), http.StatusInternalServerError, "the request")
			})
			if log == "" {
				c.errorf("nothing was logged")
			}
		})
		s.rule("FirstOf stops at a client error", func(c *trial) {
			key := k.FirstOf(k.Custom(func(Header) (string, error) { return "", k.Error(http.StatusUnauthorized) }), k.Global("all"))
			c.wantRefusal(c.use(c.holding(1), key).send(request{}), http.StatusUnauthorized, "the request")
		})
	}
}

// clientsFault checks errors that clients cause.
func (s *suite) clientsFault() {
	k := s.kit
	s.http("a body above http.MaxBytesReader's limit is 413, unlogged", func(c *trial) {
		cost := k.WithCost(func(Header) (int64, error) { return 0, fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 1}) })
		log := logtest.Capture(func() {
			c.wantRefusal(c.use(c.holding(1), k.Global("all"), cost).send(request{}), http.StatusRequestEntityTooLarge, "the request")
		})
		if log != "" {
			c.errorf("clients can flood the log: %s", log)
		}
	})
	s.rule("a request whose context ended while its key was read is 503 and not logged", func(c *trial) {
		key := k.Custom(func(Header) (string, error) { return "", fmt.Errorf("look up: %w", context.Canceled) })
		app := c.app(answer(http.StatusOK), middleware{c.holding(1), key, nil, nil, nil, nil})
		app.Context = func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		}
		log := logtest.Capture(func() {
			c.wantRefusal(c.serve(app).send(request{}), http.StatusServiceUnavailable, "the request")
		})
		if log != "" {
			c.errorf("clients can flood the log: %s", log)
		}
		log = logtest.Capture(func() {
			c.wantRefusal(c.use(c.holding(1), key).send(request{}), http.StatusInternalServerError, "an ended context that is not the request's")
		})
		if log == "" {
			c.errorf("nothing was logged")
		}
	})
}

// outage checks what happens if the store does not answer.
func (s *suite) outage() {
	down := func(c *trial, mode core.FailureMode) *server {
		policy := policyOf(2)
		policy.OnFailure = mode
		return c.use(c.limiterOn(brokenStore{}, policy), c.kit.Global("all"))
	}
	s.rule("FailClosed answers 503 with Retry-After, never 429, and shows no internal error", func(c *trial) {
		got := down(c, core.FailClosed).send(request{})
		c.wantRefusal(got, http.StatusServiceUnavailable, "the request")
		var seconds int
		if _, err := fmt.Sscanf(got.header.Get(retryAfterField), "%d", &seconds); err != nil || seconds < 1 {
			c.errorf("Retry-After is %q, want whole seconds", got.header.Get(retryAfterField))
		}
		if cache := got.header.Get(cacheField); cache != "no-store" {
			c.errorf("Cache-Control is %q, want no-store", cache)
		}
	})
	s.rule("FailOpen lets every request pass without header fields of the limit", func(c *trial) {
		app := down(c, core.FailOpen)
		for range 4 {
			got := app.send(request{})
			if got.status != http.StatusOK || !strings.Contains(got.body, "from fail-open") {
				c.errorf("answered %d %q", got.status, got.body)
			}
			if found := limitFields(got.header); len(found) > 0 || got.header.Get(retryAfterField) != "" {
				c.errorf("the answer has fields of a limit: %v", got.header)
			}
		}
	})
	s.rule("FailLocal limits each process on its own", func(c *trial) {
		app := down(c, core.FailLocal)
		for i, status := range []int{200, 200, 429} {
			got := app.send(request{})
			c.wantStatus(got, status, fmt.Sprintf("request %d with a capacity of 2", i+1))
			if !c.kit.NoFields && len(limitFields(got.header)) == 0 {
				c.errorf("request %d: no fields of the limit: %v", i+1, got.header)
			}
			if status == http.StatusOK && !strings.Contains(got.body, "from fallback") {
				c.errorf("request %d: answered %q", i+1, got.body)
			}
		}
	})
}

// context checks requests whose own context has ended.
func (s *suite) context() {
	ended := map[string]func(context.Context) context.Context{
		"cancelled": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		},
		"past its deadline": func(ctx context.Context) context.Context {
			ctx, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
			cancel()
			return ctx
		},
	}
	for name, end := range ended {
		s.rule(fmt.Sprintf("a policy in shadow mode does not stop a request whose context is %s", name), func(c *trial) {
			policy := policyOf(1)
			policy.Shadow = true
			app := c.app(answer(http.StatusOK), middleware{c.limiter(policy), c.kit.Global("all"), nil, nil, nil, nil})
			app.Context = end
			c.wantStatus(c.serve(app).send(request{}), http.StatusOK, "the request")
		})
		for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
			rule := fmt.Sprintf("a request whose context is %s is refused and takes no tokens (%v)", name, mode)
			s.rule(rule, func(c *trial) {
				policy := policyOf(1)
				policy.OnFailure = mode
				l := c.limiter(policy)
				var calls atomic.Int64
				app := c.app(counted(&calls, answer(http.StatusOK)), middleware{l, c.kit.Global("all"), nil, nil, nil, nil})
				app.Context = end
				c.wantRefusal(c.serve(app).send(request{}), http.StatusServiceUnavailable, "the request")
				if calls.Load() != 0 {
					c.errorf("the handler was called")
				}
				c.wantRemaining(c.use(l, c.kit.Global("all")).send(request{}), 0, "the next request, with a capacity of 1")
			})
		}
	}
}
