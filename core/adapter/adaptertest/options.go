package adaptertest

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
)

// cost: WithCost.
func (s *suite[K, O]) cost() {
	s.rule("WithCost sets the tokens a request takes; 0 takes none and passes an empty bucket", func(c *trial[K, O]) {
		app := c.use(c.holding(5), c.kit.Global("all"), c.kit.WithCost(costHeader))
		for _, step := range []struct {
			cost      string
			remaining int64
		}{{"3", 2}, {"0", 2}, {"2", 0}, {"0", 0}} {
			got := app.send(request{header: header("Cost", step.cost)})
			c.wantRemaining(got, step.remaining, "cost "+step.cost)
			if len(limitFields(got.header)) == 0 {
				c.errorf("cost %s: no fields of the limit: %v", step.cost, got.header)
			}
		}
		c.wantStatus(app.send(request{header: header("Cost", "1")}), http.StatusTooManyRequests, "cost 1 of 0")
	})
	for _, bad := range []struct {
		rule string
		cost int64
		err  error
	}{
		{"an error of the cost function is answered 500 and takes nothing", 1, errSecret},
		{"a negative cost is answered 500 and gives nothing", -3, nil},
	} {
		s.rule(bad.rule, func(c *trial[K, O]) {
			l := c.holding(5)
			c.wantStatus(c.use(l, c.kit.Global("all")).send(request{}), http.StatusOK, "a request of cost 1")
			app := c.use(l, c.kit.Global("all"), c.kit.WithCost(func(Header) (int64, error) { return bad.cost, bad.err }))
			c.wantRefusal(app.send(request{}), http.StatusInternalServerError, "the bad cost")
			c.wantRemaining(c.use(l, c.kit.Global("all")).send(request{}), 3, "another request of cost 1")
		})
	}
}

// limits: WithLimits.
func (s *suite[K, O]) limits() {
	s.rule("WithLimits holds a request to other limits; nil keeps the policy's own", func(c *trial[K, O]) {
		own, pro := burst, quota
		app := c.use(c.limiter(core.Policy{Name: "test", Limits: []core.Limit{own}}), c.kit.ByHeader("User"),
			c.kit.WithLimits(func(h Header) ([]core.Limit, error) {
				if h("Plan") == "pro" {
					return []core.Limit{pro}, nil
				}
				return nil, nil
			}))
		for _, user := range []struct {
			name, plan string
			limit      core.Limit
		}{{"ann", "", own}, {"bob", "pro", pro}} {
			policy := newModel(user.limit)
			for range user.limit.Capacity + 1 {
				d := decision{policy, 1, policy.take(1), c.clock.Now()}
				got := app.send(request{header: header("User", user.name, "Plan", user.plan)})
				if allowed := got.status == http.StatusOK; allowed != d.allowed {
					c.errorf("plan %q: answered %d, allowed by its limit %v: %v", user.plan, got.status, user.limit, d.allowed)
				}
				if wrong := wrongFields(got.header, core.HeadersDefault, d, d); wrong != "" {
					c.errorf("plan %q:\n%s", user.plan, wrong)
				}
			}
		}
	})
	for _, bad := range []struct {
		rule   string
		limits []core.Limit
		err    error
	}{
		{"limits that no constructor accepts are answered 500", []core.Limit{{Name: secret, Capacity: -1}}, nil},
		{"an empty list of limits, unlike nil, is answered 500", []core.Limit{}, nil},
		{"an error of the limits function is answered 500", nil, errSecret},
	} {
		s.rule(bad.rule, func(c *trial[K, O]) {
			app := c.use(c.holding(1), c.kit.Global("all"),
				c.kit.WithLimits(func(Header) ([]core.Limit, error) { return bad.limits, bad.err }))
			c.wantRefusal(app.send(request{}), http.StatusInternalServerError, "the bad limits")
		})
	}
}

// skip: WithSkip.
func (s *suite[K, O]) skip() {
	s.rule("a skipped request passes uncounted, without header fields, and needs no key", func(c *trial[K, O]) {
		app := c.use(c.holding(1), c.kit.ByHeader("User"), c.kit.WithSkip(func(h Header) bool { return h("Health") != "" }))
		skipped := func() {
			got := app.send(request{header: header("Health", "1")})
			if got.status != http.StatusOK || got.body != "no result" || len(limitFields(got.header)) > 0 {
				c.errorf("a skipped request was answered %d %q with %v, want 200 as if there were no limiter",
					got.status, got.body, got.header)
			}
			got = app.send(request{header: header("Health", "1", "User", "ann")})
			c.wantStatus(got, http.StatusOK, "a skipped request with a key")
		}
		skipped()
		c.wantRemaining(app.send(request{header: header("User", "ann")}), 0, "the first counted request")
		c.wantStatus(app.send(request{header: header("User", "ann")}), http.StatusTooManyRequests, "the second")
		skipped()
	})
}

// onError: OnError.
func (s *suite[K, O]) onError() {
	s.rule("OnError gets the error and answers in place of 400, 500 and 503; the handler is not called", func(c *trial[K, O]) {
		closed := c.limiterOn(brokenStore{}, core.Policy{Name: "test", Limits: []core.Limit{slow(1)}, OnFailure: core.FailClosed})
		for _, trouble := range []struct {
			name    string
			limiter *core.Limiter
			key     K
			want    error
		}{
			{"no key", c.holding(1), c.kit.ByHeader("User"), core.ErrNoKey},
			{"a key function's own error", c.holding(1), c.kit.Custom(func(Header) (string, error) { return "", errSecret }), errSecret},
			{"the store is down", closed, c.kit.Global("all"), core.ErrUnavailable},
		} {
			var mu sync.Mutex
			var got error
			var calls atomic.Int64
			option := c.kit.OnError(func(err error) (int, string) {
				mu.Lock()
				defer mu.Unlock()
				got = err
				return http.StatusTeapot, "mine"
			})
			app := c.serve(c.app(counted(&calls, answer(http.StatusOK)), Limiter[K, O]{trouble.limiter, trouble.key, []O{option}}))
			r := app.send(request{})
			mu.Lock()
			if !errors.Is(got, trouble.want) {
				c.errorf("%s: OnError got %v, want %v", trouble.name, got, trouble.want)
			}
			mu.Unlock()
			if r.status != http.StatusTeapot || r.body != "mine" || calls.Load() != 0 {
				c.errorf("%s: answered %d %q after %d calls of the handler, want what OnError wrote and none",
					trouble.name, r.status, r.body, calls.Load())
			}
		}
	})
}

// fromContext: what handlers learn of the decision.
func (s *suite[K, O]) fromContext() {
	s.rule("FromContext gives the handler the decision", func(c *trial[K, O]) {
		app := c.use(c.holding(3), c.kit.Global("all"))
		for remaining := int64(2); remaining >= 0; remaining-- {
			c.wantRemaining(app.send(request{}), remaining, "a request")
		}
	})
	s.rule("FromContext is false without a limiter", func(c *trial[K, O]) {
		if got := c.serve(c.app(answer(http.StatusOK))).send(request{}); got.body != "no result" {
			c.errorf("the handler got %q", got.body)
		}
	})
}
