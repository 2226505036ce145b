package adaptertest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// denial checks the answer to a denied request.
func (s *suite) denial() {
	s.defaultDenial()
	s.exceptions()
	s.ownDenial()
}

// defaultDenial checks the default answer to a denied request.
func (s *suite) defaultDenial() {
	s.rule("a denied request is answered with 429 and does not reach the handler", func(c *trial) {
		var calls atomic.Int64
		app := c.serve(c.app(counted(&calls, answer(http.StatusOK)), middleware{c.holding(2), c.kit.Global("all"), nil, nil, nil, nil}))
		for i, status := range []int{200, 200, 429, 429} {
			c.wantStatus(app.send(request{}), status, fmt.Sprintf("request %d with a capacity of 2", i+1))
		}
		if n := calls.Load(); n != 2 {
			c.errorf("the handler was called %d times, want 2", n)
		}
	})
	if s.kit.ProblemBody {
		s.rule("the body of a denial is application/problem+json with type, status and violated-policies", func(c *trial) {
			enough, scarce := slow(9), slow(1)
			enough.Name, scarce.Name = "enough", "scarce"
			app := c.use(c.limiter(core.Policy{Name: "test", Limits: []core.Limit{enough, scarce}}), c.kit.Global("all"))
			app.send(request{})
			got := app.send(request{})
			p := c.wantProblem(got, http.StatusTooManyRequests, "without tokens")
			if p.Type != quotaExceeded || !slices.Equal(p.ViolatedPolicies, []string{"scarce"}) {
				c.errorf("the body is %q, want type %s and only the policy without tokens", got.body, quotaExceeded)
			}
		})
	} else {
		s.rule("a denial is an error of the framework with status 429, and the app's error handler renders it", func(c *trial) {
			app := c.use(c.holding(1), c.kit.Global("all"))
			if got := app.send(request{}); got.header.Get(ErrorHeader) != "" {
				c.errorf("an allowed request reached the error handler: %v", got.header)
			}
			got := app.send(request{})
			if e := got.header.Get(ErrorHeader); e != "429" {
				c.errorf("the error handler got an error of status %q, want 429", e)
			}
		})
	}
	s.rule("a cost above the capacity is a 429 without Retry-After", func(c *trial) {
		app := c.use(c.holding(3), c.kit.Global("all"), c.kit.WithCost(costHeader))
		got := app.send(request{header: header("Cost", "4")})
		c.wantStatus(got, http.StatusTooManyRequests, "cost 4 of 3")
		if after := got.header.Values(retryAfterField); len(after) > 0 {
			c.errorf("Retry-After is %q, want none: the request can never pass", after)
		}
		c.wantRemaining(app.send(request{header: header("Cost", "3")}), 0, "cost 3, after a denial that takes no tokens")
	})
}

// exceptions checks exceptions of a key.
func (s *suite) exceptions() {
	s.rule("exceptions of a key hold from the next request on, also under WithLimits: a block is a 429 without Retry-After, and other limits are shown", func(c *trial) {
		l := c.holding(2)
		app := c.use(l, c.kit.Global("all"))
		tier := c.use(l, c.kit.Global("all"), c.kit.WithLimits(func(Header) ([]core.Limit, error) { return []core.Limit{slow(9)}, nil }))
		const key = "global:all"
		except := func(e core.Exceptions) {
			if err := l.SetExceptions(e); err != nil {
				c.errorf("SetExceptions: %v", err)
			}
		}
		c.wantRemaining(app.send(request{}), 1, "without an exception")
		except(core.Exceptions{Blocked: []string{key}})
		for _, app := range []*server{app, tier} {
			got := app.send(request{})
			c.wantStatus(got, http.StatusTooManyRequests, "a blocked key")
			if after := got.header.Values(retryAfterField); len(after) > 0 {
				c.errorf("Retry-After is %q, want none: nobody knows when the block ends", after)
			}
		}
		free := []anyOption{c.kit.WithUnits(func(Header) (core.Units, error) { return core.Units{core.Requests: 0}, nil }), c.kit.WithCost(func(Header) (int64, error) { return 0, nil })}
		for _, o := range free {
			c.wantStatus(c.use(l, c.kit.Global("all"), o).send(request{}), http.StatusOK, "a request of a blocked key that costs nothing")
			joint := c.useTogether([]rule{{l, c.kit.Global("all")}, {c.named("beside", 9), c.kit.Global("all")}}, o)
			c.wantStatus(joint.send(request{}), http.StatusOK, "one of several limiters, a request of a blocked key that costs nothing")
		}
		except(core.Exceptions{Overrides: map[string][]core.Limit{key: {slow(5)}}})
		c.wantRemaining(app.send(request{}), 3, "5 tokens, of which 1 was used before the block")
		c.wantRemaining(tier.send(request{}), 2, "the same under WithLimits")
		except(core.Exceptions{})
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "2 tokens again, of which 3 are used")
		c.wantRemaining(tier.send(request{}), 5, "9 tokens under WithLimits")
	})
}

// ownDenial checks the app's own answers to a denied request.
func (s *suite) ownDenial() {
	s.rule("OnDenied replaces the answer and keeps the header fields", func(c *trial) {
		var seen atomic.Pointer[core.Result]
		app := c.use(c.limiter(core.Policy{Name: "test", Limits: []core.Limit{burst}}), c.kit.Global("all"),
			c.kit.OnDenied(func(res core.Result) (int, string) {
				seen.Store(&res)
				return http.StatusTeapot, "short and stout"
			}))
		policy := newModel(burst)
		for policy.take(1) {
			c.wantStatus(app.send(request{}), http.StatusOK, "with tokens")
		}
		got := app.send(request{})
		if got.status != http.StatusTeapot || got.body != "short and stout" {
			c.errorf("answered %d %q, want what OnDenied wrote", got.status, got.body)
		}
		d := decision{policy, 1, false, c.clock.Now()}
		if wrong := wrongFields(got.header, core.HeadersDefault, d, d); wrong != "" && !c.kit.NoFields {
			c.errorf("%s", wrong)
		}
		if res := seen.Load(); res == nil || res.Allowed || res.RetryAfter <= 0 || len(res.Limits()) != 1 {
			c.errorf("OnDenied got the result %+v, want the denial", res)
		}
	})
	s.rule("if OnDenied or OnError writes nothing, the default answer follows", func(c *trial) {
		var calls atomic.Int64
		silent := []anyOption{
			c.kit.OnDenied(func(core.Result) (int, string) { calls.Add(1); return 0, "" }),
			c.kit.OnError(func(error) (int, string) { calls.Add(1); return 0, "" }),
		}
		l := c.holding(1)
		serve := func(limiter middleware) response {
			limiter.Options = silent
			return c.serve(c.app(answer(http.StatusOK), limiter)).send(request{})
		}
		c.wantStatus(serve(middleware{Limiter: l, Key: c.kit.Global("all")}), http.StatusOK, "with a token")
		denied := serve(middleware{Limiter: l, Key: c.kit.Global("all")})
		c.wantStatus(denied, http.StatusTooManyRequests, "denied")
		if c.kit.ProblemBody {
			c.wantProblem(denied, http.StatusTooManyRequests, "denied")
		} else if e := denied.header.Get(ErrorHeader); e != "429" {
			c.errorf("the error handler got an error of status %q, want 429", e)
		}
		c.wantStatus(serve(middleware{Together: []rule{{l, c.kit.Global("all")}, {l, c.kit.Global("one")}}}), http.StatusTooManyRequests, "denied by several")
		c.wantRefusal(serve(middleware{Limiter: l, Key: c.kit.ByHeader("User")}), http.StatusBadRequest, "without a key")
		failing := c.kit.Custom(func(Header) (string, error) { return "", errSecret })
		c.wantRefusal(serve(middleware{Limiter: l, Key: failing}), http.StatusInternalServerError, "without a decision")
		if n := calls.Load(); n != 4 {
			c.errorf("the functions were called %d times, want once for each refusal", n)
		}
	})
}

// retryAfter checks that Retry-After is neither too early nor a second late.
func (s *suite) retryAfter() {
	for _, limit := range []core.Limit{
		burst,
		{Capacity: 1, RefillRate: 1000, RefillInterval: time.Second},
		{Capacity: 3, RefillRate: 3, RefillInterval: 10 * time.Second, Mode: core.Stepped},
		{Capacity: 3, RefillRate: 3, RefillInterval: time.Minute, Mode: core.Aligned},
	} {
		rule := fmt.Sprintf("a denial has Retry-After in whole seconds, rounded up, at least 1 (%v, %v every %v)",
			limit.Mode, limit.RefillRate, limit.RefillInterval)
		s.rule(rule, func(c *trial) {
			app := c.use(c.limiter(core.Policy{Name: "test", Limits: []core.Limit{limit}}), c.kit.Global("all"))
			c.wantStatus(app.send(request{}), http.StatusOK, "the first request") // starts the steps of a Stepped bucket
			c.clock.advance(1234 * time.Millisecond)
			got := app.send(request{})
			for ; got.status == http.StatusOK; got = app.send(request{}) {
			}
			c.wantStatus(got, http.StatusTooManyRequests, "without tokens")
			var seconds int64
			if _, err := fmt.Sscanf(got.header.Get(retryAfterField), "%d", &seconds); err != nil || seconds < 1 {
				c.errorf("Retry-After is %q", got.header.Get(retryAfterField))
				return
			}
			if seconds > 1 {
				c.clock.advance(time.Duration(seconds-1) * time.Second)
				c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a second before Retry-After ends")
				c.clock.advance(time.Second)
			} else {
				c.clock.advance(time.Second)
			}
			c.wantStatus(app.send(request{}), http.StatusOK, "when Retry-After ends")
		})
	}
}

// methods checks requests without a body and with one.
func (s *suite) methods() {
	s.rule("HEAD is limited like GET, and its answers have no body", func(c *trial) {
		app := c.use(c.holding(1), c.kit.Global("all"))
		for _, status := range []int{200, 429} {
			got := app.send(request{method: http.MethodHead})
			if c.wantStatus(got, status, "HEAD"); got.body != "" {
				c.errorf("the body is %q", got.body)
			}
			if !c.kit.NoFields && len(limitFields(got.header)) == 0 {
				c.errorf("the answer %d has no fields of the limit: %v", status, got.header)
			}
		}
	})
	s.rule("a POST can be denied before its body is read", func(c *trial) {
		app := c.use(c.holding(1), c.kit.Global("all"))
		post := request{method: http.MethodPost, body: string(make([]byte, 20_000))}
		for _, status := range []int{200, 429, 429} {
			c.wantStatus(app.send(post), status, "POST")
		}
	})
}

// concurrent checks many requests at once.
func (s *suite) concurrent() {
	s.rule("as many concurrent requests with one key pass as the capacity allows", func(c *trial) {
		const clients, each, capacity = 16, 10, 53
		app := c.use(c.holding(capacity), c.kit.ByHeader("User"))
		var allowed, denied, alone atomic.Int64
		var group sync.WaitGroup
		for i := range clients {
			group.Go(func() {
				for range each {
					switch got := app.send(request{header: header("User", "crowd")}); got.status {
					case http.StatusOK:
						allowed.Add(1)
					case http.StatusTooManyRequests:
						denied.Add(1)
					}
				}
				if got := app.send(request{header: header("User", fmt.Sprint("user ", i))}); got.status == http.StatusOK {
					alone.Add(1)
				}
			})
		}
		group.Wait()
		if allowed.Load() != capacity || denied.Load() != clients*each-capacity {
			c.errorf("%d passed and %d were denied, want %d of %d to pass", allowed.Load(), denied.Load(), capacity, clients*each)
		}
		if alone.Load() != clients {
			c.errorf("%d of %d clients with their own keys passed meanwhile, want all", alone.Load(), clients)
		}
	})
}
