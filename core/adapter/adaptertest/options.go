package adaptertest

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// cost checks WithCost.
func (s *suite) cost() {
	s.rule("WithCost sets the tokens a request takes, and a cost of 0 passes an empty bucket", func(c *trial) {
		app := c.use(c.holding(5), c.kit.Global("all"), c.kit.WithCost(costHeader))
		for _, step := range []struct {
			cost      string
			remaining int64
		}{{"3", 2}, {"0", 2}, {"2", 0}, {"0", 0}} {
			got := app.send(request{header: header("Cost", step.cost)})
			c.wantRemaining(got, step.remaining, "cost "+step.cost)
			if !c.kit.NoFields && len(limitFields(got.header)) == 0 {
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
		{"an error of the cost function is answered with 500 and takes no tokens", 1, errSecret},
		{"a negative cost is answered with 500 and adds no tokens", -3, nil},
	} {
		s.rule(bad.rule, func(c *trial) {
			l := c.holding(5)
			c.wantStatus(c.use(l, c.kit.Global("all")).send(request{}), http.StatusOK, "a request of cost 1")
			app := c.use(l, c.kit.Global("all"), c.kit.WithCost(func(Header) (int64, error) { return bad.cost, bad.err }))
			c.wantRefusal(app.send(request{}), http.StatusInternalServerError, "the bad cost")
			c.wantRemaining(c.use(l, c.kit.Global("all")).send(request{}), 3, "another request of cost 1")
		})
	}
}

// limits checks WithLimits.
func (s *suite) limits() {
	s.rule("WithLimits replaces the limits of a request, and nil keeps the policy's own", func(c *trial) {
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
				if wrong := c.wrongFields(got.header, core.HeadersDefault, d, d); wrong != "" {
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
		{"invalid limits are answered with 500", []core.Limit{{Name: secret, Capacity: -1}}, nil},
		{"an empty list of limits is answered with 500, unlike nil", []core.Limit{}, nil},
		{"an error of the limits function is answered with 500", nil, errSecret},
	} {
		s.rule(bad.rule, func(c *trial) {
			app := c.use(c.holding(1), c.kit.Global("all"),
				c.kit.WithLimits(func(Header) ([]core.Limit, error) { return bad.limits, bad.err }))
			c.wantRefusal(app.send(request{}), http.StatusInternalServerError, "the bad limits")
		})
	}
}

// plans checks WithPlan.
func (s *suite) plans() {
	policy := core.Policy{
		Name: "test", Limits: []core.Limit{slow(3).WithName("calls")},
		Plans:     map[string][]core.Limit{"pro": {slow(9).WithName("calls")}},
		Overrides: map[string][]core.Limit{"vip": {slow(20).WithName("calls")}},
	}
	byUser := s.kit.Custom(func(h Header) (string, error) { return h("User"), nil })
	byPlan := s.kit.WithPlan(func(h Header) (string, error) { return h("Plan"), nil })
	s.rule("WithPlan chooses a plan of the policy, whose limits share what was used; overrides come after it", func(c *trial) {
		l := c.limiter(policy)
		app := c.use(l, byUser, byPlan)
		c.wantRemaining(app.send(request{header: header("User", "ann", "Plan", "pro")}), 8, "a request of the plan")
		c.wantRemaining(app.send(request{header: header("User", "ann")}), 1, "another without a plan")
		c.wantRemaining(app.send(request{header: header("User", "ann", "Plan", "pro")}), 6, "another of the plan")
		c.wantRemaining(app.send(request{header: header("User", "vip", "Plan", "pro")}), 19, "a request of a key with an override")
		policy := policy
		policy.Plans = map[string][]core.Limit{"pro": {slow(5).WithName("calls")}}
		if err := l.SetPolicy(policy); err != nil {
			c.errorf("SetPolicy: %v", err)
		}
		c.wantRemaining(app.send(request{header: header("User", "ann", "Plan", "pro")}), 1, "a request of the plan, which has changed")
	})
	s.rule("a plan that the policy lacks is logged once, and the policy's own limits decide", func(c *trial) {
		log := logtest.Capture(func() {
			app := c.use(c.limiter(policy), byUser, byPlan)
			for left := int64(2); left >= 0; left-- {
				c.wantRemaining(app.send(request{header: header("User", "ann", "Plan", "gold")}), left, "a request of an unknown plan")
			}
		})
		if strings.Count(log, "RL720") != 1 || !strings.Contains(log, "plan=gold") {
			c.errorf("the log has not one line of RL720 about the plan gold: %s", log)
		}
	})
	s.rule("an error of the plan function is answered with 500", func(c *trial) {
		app := c.use(c.holding(1), s.kit.Global("all"), s.kit.WithPlan(func(Header) (string, error) { return "", errSecret }))
		c.wantRefusal(app.send(request{}), http.StatusInternalServerError, "the error")
	})
}

// skip checks WithSkip.
func (s *suite) skip() {
	s.rule("a skipped request needs no key, is not counted and gets no header fields", func(c *trial) {
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

// onError checks OnError.
func (s *suite) onError() {
	s.rule("OnError gets the error and replaces 400, 500 and 503, and the handler is not called", func(c *trial) {
		closed := c.limiterOn(brokenStore{}, core.Policy{Name: "test", Limits: []core.Limit{slow(1)}, OnFailure: core.FailClosed})
		for _, trouble := range []struct {
			name    string
			limiter *core.Limiter
			key     anyKey
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
			app := c.serve(c.app(counted(&calls, answer(http.StatusOK)), middleware{trouble.limiter, trouble.key, []anyOption{option}, nil, nil, nil}))
			r := app.send(request{})
			mu.Lock()
			if !errors.Is(got, trouble.want) {
				c.errorf("%s: OnError got %v, want %v", trouble.name, got, trouble.want)
			}
			mu.Unlock()
			if r.status != http.StatusTeapot || r.body != "mine" || calls.Load() != 0 {
				c.errorf("%s: answered %d %q after %d calls of the handler, want what OnError wrote and no call",
					trouble.name, r.status, r.body, calls.Load())
			}
		}
	})
}

// fromContext checks what handlers get from FromContext.
func (s *suite) fromContext() {
	s.rule("FromContext returns the decision", func(c *trial) {
		app := c.use(c.holding(3), c.kit.Global("all"))
		for remaining := int64(2); remaining >= 0; remaining-- {
			c.wantRemaining(app.send(request{}), remaining, "a request")
		}
	})
	s.rule("FromContext returns false without a limiter", func(c *trial) {
		if got := c.serve(c.app(answer(http.StatusOK))).send(request{}); got.body != "no result" {
			c.errorf("the handler got %q", got.body)
		}
	})
}

// content checks CostByContentLength and CostByContentLengthOr.
func (s *suite) content() {
	s.rule("CostByContentLength takes a token for each part of a body, rounded up, and at least one", func(c *trial) {
		app := c.use(c.holding(100), c.kit.Global("all"), c.kit.CostByContentLength(10))
		left := int64(100)
		for _, size := range []int{0, 1, 9, 10, 11, 99, 100, 101} {
			left -= max(1, int64(size+9)/10)
			c.wantRemaining(app.send(request{method: http.MethodPost, body: strings.Repeat("x", size)}), left, itoa(int64(size))+" bytes")
		}
		c.wantRemaining(app.send(request{}), left-1, "a GET")
	})
	s.rule("a body of unknown length costs the whole Capacity of the smallest limit", func(c *trial) {
		chunked := request{method: http.MethodPost, body: "x", chunked: true}
		app := c.use(c.holding(7), c.kit.Global("all"), c.kit.CostByContentLength(1000))
		c.wantRemaining(app.send(chunked), 0, "from a full bucket")
		app = c.use(c.limiter(core.Policy{Name: "two", Limits: []core.Limit{slow(9).WithName("wide"), slow(7)}}),
			c.kit.Global("all"), c.kit.CostByContentLength(1000))
		c.wantStatus(app.send(chunked), http.StatusOK, "a full bucket of 7 and one of 9")
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "the bucket of 7 is empty")
		app = c.use(c.limiter(core.Policy{Name: "used", Limits: []core.Limit{slow(7)}}), c.kit.Global("all"), c.kit.CostByContentLength(1000))
		c.wantRemaining(app.send(request{}), 6, "a request without a body")
		c.wantStatus(app.send(chunked), http.StatusTooManyRequests, "a bucket that isn't full")
	})
	s.rule("with CostByContentLengthOr a body of unknown length has its own cost", func(c *trial) {
		app := c.use(c.holding(10), c.kit.Global("all"), c.kit.CostByContentLengthOr(1000, 4))
		c.wantRemaining(app.send(request{method: http.MethodPost, body: "x", chunked: true}), 6, "a chunked body")
		c.wantRemaining(app.send(request{method: http.MethodPost, body: "x"}), 5, "a body of 1 byte")
	})
}

// shadow checks Policy.Shadow.
func (s *suite) shadow() {
	s.rule("a policy in shadow mode charges requests and answers as if there were no limiter", func(c *trial) {
		policy := policyOf(2)
		policy.Shadow = true
		app := c.use(c.limiter(policy), c.kit.ByHeader("User"))
		for i := range 4 {
			got := app.send(request{header: header("User", "ann")})
			c.wantStatus(got, http.StatusOK, itoa(int64(i))+" with a bucket of 2")
			if len(limitFields(got.header)) > 0 {
				c.errorf("the answer has fields of a limit that is not enforced: %v", got.header)
			}
		}
		got := app.send(request{})
		c.wantStatus(got, http.StatusOK, "without a key")
		c.wantStatus(c.use(c.holding(2), c.kit.ByHeader("User")).send(request{header: header("User", "ann")}), http.StatusTooManyRequests,
			"the same bucket under an enforced policy")
	})
	s.rule("a policy in shadow mode lets requests pass when the store does not answer", func(c *trial) {
		policy := core.Policy{Name: "test", Limits: []core.Limit{slow(1)}, OnFailure: core.FailClosed, Shadow: true}
		c.wantStatus(c.use(c.limiterOn(brokenStore{}, policy), c.kit.Global("all")).send(request{}), http.StatusOK, "a request")
	})
}

// log checks where the middleware logs.
func (s *suite) log() {
	s.rule("what the middleware logs goes to its limiter's logger, and nothing to the default one", func(c *trial) {
		k := s.kit
		var lines logtest.Buffer
		logger := core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))
		limiter := func(name string) *core.Limiter {
			l, err := core.NewLimiter(c.store, core.Policy{Name: name, Limits: []core.Limit{slow(9)}}, logger)
			if err != nil {
				c.errorf("NewLimiter: %v", err)
			}
			return l
		}
		failing := k.WithCost(func(Header) (int64, error) { return 0, errors.New("no database") })
		settling := k.WithSettle(func(Header, int) core.Units { panic("no usage") })
		addresses := !absent(k.ByIP())
		twice := middleware{Limiter: limiter("twice"), Key: k.Global("all")}
		defaults := logtest.Capture(func() {
			c.wantStatus(c.use(limiter("key"), k.ByHeader("Missing")).send(request{}), http.StatusBadRequest, "without a key")
			c.wantStatus(c.use(limiter("cost"), k.Global("all"), failing).send(request{}), http.StatusInternalServerError, "a cost function that fails")
			c.wantStatus(c.use(limiter("settle"), k.Global("all"), settling).send(request{}), http.StatusOK, "a settle function that panics")
			if addresses {
				c.wantStatus(c.use(limiter("address"), k.Join(k.ByIP(), k.ByIP())).send(request{header: header("X-Forwarded-For", "192.0.2.1")}), http.StatusOK, "a proxy that is not trusted")
			}
			c.wantStatus(c.serve(c.app(answer(http.StatusOK), twice, twice)).send(request{}), http.StatusOK, "charged twice")
		})
		codes := map[string]string{"RL704": "a request charged twice", "RL707": "a missing key", "RL709": "an error of the user's", "RL710": "a failed settlement"}
		if addresses {
			codes["RL701"] = "a proxy that is not trusted"
		}
		for code, of := range codes {
			if !strings.Contains(lines.String(), "code="+code) {
				c.errorf("the limiter's logger got no line of %s (%s): %s", code, of, lines.String())
			}
			if strings.Contains(defaults, code) {
				c.errorf("the default logger got a line of %s (%s): %s", code, of, defaults)
			}
		}
	})
}
