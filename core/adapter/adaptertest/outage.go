package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// outage: the store can't answer.
func (s *suite[K, O]) outage() {
	down := func(c *trial[K, O], mode core.FailureMode) *server {
		policy := policyOf(2)
		policy.OnFailure = mode
		return c.use(c.limiterOn(brokenStore{}, policy), c.kit.Global("all"))
	}
	s.rule("FailClosed answers 503 with Retry-After, never 429, and shows no internal error", func(c *trial[K, O]) {
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
	s.rule("FailOpen lets every request pass and tells nothing of a limit", func(c *trial[K, O]) {
		app := down(c, core.FailOpen)
		for range 4 {
			got := app.send(request{})
			if got.status != http.StatusOK || !strings.Contains(got.body, "from fail-open") {
				c.errorf("answered %d %q", got.status, got.body)
			}
			if found := limitFields(got.header); len(found) > 0 || got.header.Get(retryAfterField) != "" {
				c.errorf("nothing is known, but the answer has %v", got.header)
			}
		}
	})
	s.rule("FailLocal limits in this process", func(c *trial[K, O]) {
		app := down(c, core.FailLocal)
		for i, status := range []int{200, 200, 429} {
			got := app.send(request{})
			c.wantStatus(got, status, fmt.Sprintf("request %d with a capacity of 2", i+1))
			if len(limitFields(got.header)) == 0 {
				c.errorf("request %d: no fields of the limit: %v", i+1, got.header)
			}
			if status == http.StatusOK && !strings.Contains(got.body, "from fallback") {
				c.errorf("request %d: answered %q", i+1, got.body)
			}
		}
	})
}

// context: the request's own context has ended.
func (s *suite[K, O]) context() {
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
		s.rule(fmt.Sprintf("a policy in shadow mode does not stop a request whose context is %s", name), func(c *trial[K, O]) {
			policy := policyOf(1)
			policy.Shadow = true
			app := c.app(answer(http.StatusOK), Limiter[K, O]{c.limiter(policy), c.kit.Global("all"), nil})
			app.Context = end
			c.wantStatus(c.serve(app).send(request{}), http.StatusOK, "the request")
		})
		for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
			rule := fmt.Sprintf("a request whose context is %s is refused and takes nothing (%v)", name, mode)
			s.rule(rule, func(c *trial[K, O]) {
				policy := policyOf(1)
				policy.OnFailure = mode
				l := c.limiter(policy)
				var calls atomic.Int64
				app := c.app(counted(&calls, answer(http.StatusOK)), Limiter[K, O]{l, c.kit.Global("all"), nil})
				app.Context = end
				c.wantRefusal(c.serve(app).send(request{}), http.StatusServiceUnavailable, "the request")
				if calls.Load() != 0 {
					c.errorf("the handler was called")
				}
				c.wantRemaining(c.use(l, c.kit.Global("all")).send(request{}), 0, "the next, with a capacity of 1")
			})
		}
	}
}
