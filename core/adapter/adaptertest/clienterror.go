package adaptertest

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
)

// clientErrors: errors that tell whose fault they are.
func (s *suite[K, O]) clientErrors() {
	k := s.kit
	if k.Error != nil {
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity} {
			for where, make := range map[string]func(error) (K, []O){
				"key": func(err error) (K, []O) {
					return k.Custom(func(Header) (string, error) { return "", err }), nil
				},
				"cost": func(err error) (K, []O) {
					return k.Global("all"), []O{k.WithCost(func(Header) (int64, error) { return 0, err })}
				},
				"limits": func(err error) (K, []O) {
					return k.Global("all"), []O{k.WithLimits(func(Header) ([]core.Limit, error) { return nil, err })}
				},
			} {
				for _, wrapped := range []bool{false, true} {
					s.rule(fmt.Sprintf("a client error of the framework's own is answered as it is, unlogged (%s function, %d, wrapped: %v)", where, status, wrapped), func(c *trial[K, O]) {
						err := k.Error(status)
						if wrapped {
							err = fmt.Errorf("login: %w", err)
						}
						key, options := make(err)
						log := c.logged(func() {
							app := c.serve(c.app(answer(http.StatusOK), Limiter[K, O]{c.holding(1), key, options}))
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
		s.rule("OnError gets a client error too", func(c *trial[K, O]) {
			key := k.Custom(func(Header) (string, error) { return "", k.Error(http.StatusUnauthorized) })
			app := c.use(c.holding(1), key, k.OnError(func(error) (int, string) { return http.StatusTeapot, "mine" }))
			c.wantStatus(app.send(request{}), http.StatusTeapot, "the request")
		})
		s.rule("a server error of the framework's own is 500, and logged", func(c *trial[K, O]) {
			key := k.Custom(func(Header) (string, error) { return "", k.Error(http.StatusBadGateway) })
			log := c.logged(func() {
				c.wantRefusal(c.use(c.holding(1), key).send(request{}), http.StatusInternalServerError, "the request")
			})
			if log == "" {
				c.errorf("nothing was logged")
			}
		})
		s.rule("FirstOf ends at a client error", func(c *trial[K, O]) {
			key := k.FirstOf(k.Custom(func(Header) (string, error) { return "", k.Error(http.StatusUnauthorized) }), k.ByIP())
			c.wantRefusal(c.use(c.holding(1), key).send(request{}), http.StatusUnauthorized, "the request")
		})
	}
	s.rule("a body above http.MaxBytesReader's limit is 413, unlogged", func(c *trial[K, O]) {
		cost := k.WithCost(func(Header) (int64, error) { return 0, fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 1}) })
		log := c.logged(func() {
			c.wantRefusal(c.use(c.holding(1), k.Global("all"), cost).send(request{}), http.StatusRequestEntityTooLarge, "the request")
		})
		if log != "" {
			c.errorf("clients can flood the log: %s", log)
		}
	})
	s.rule("a request whose context has ended while its key was read is 503, unlogged: its client has gone", func(c *trial[K, O]) {
		key := k.Custom(func(Header) (string, error) { return "", fmt.Errorf("look up: %w", context.Canceled) })
		app := c.app(answer(http.StatusOK), Limiter[K, O]{c.holding(1), key, nil})
		app.Context = func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		}
		log := c.logged(func() {
			c.wantRefusal(c.serve(app).send(request{}), http.StatusServiceUnavailable, "the request")
		})
		if log != "" {
			c.errorf("clients can flood the log: %s", log)
		}
		log = c.logged(func() {
			c.wantRefusal(c.use(c.holding(1), key).send(request{}), http.StatusInternalServerError, "a context of the function's own that has ended")
		})
		if log == "" {
			c.errorf("nothing was logged")
		}
	})
}
