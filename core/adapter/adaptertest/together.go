package adaptertest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// named returns a limiter on the trial's store whose policy and limit have a
// name, and whose buckets hold n tokens.
func (c *trial) named(name string, n int64) *core.Limiter {
	c.t.Helper()
	return c.limiter(core.Policy{Name: name, Limits: []core.Limit{slow(n)}})
}

// useTogether runs an app with the middleware of NewTogether in front of all
// routes.
func (c *trial) useTogether(rules []rule, options ...anyOption) *server {
	c.t.Helper()
	return c.serve(c.app(answer(http.StatusOK), middleware{Together: rules, Options: options}))
}

// jointly checks NewTogether.
func (s *suite) jointly() {
	s.jointTakes()
	s.jointFields()
	s.jointRetryAfter()
	s.jointDenial()
	s.jointCosts()
	s.jointFailures()
	s.jointShadow()
	s.jointShadowUnits()
	s.jointOutages()
	s.jointEnds()
	s.jointMistakes()
}

// jointTakes checks that all limiters take their tokens, or none.
func (s *suite) jointTakes() {
	k := s.kit
	s.rule("NewTogether takes from all limiters or from none", func(c *trial) {
		user, org := c.named("user", 5), c.named("org", 2)
		app := c.useTogether([]rule{{user, k.ByHeader("User")}, {org, k.Global("all")}})
		for i, status := range []int{200, 200, 429, 429} {
			c.wantStatus(app.send(request{header: header("User", "ann")}), status, fmt.Sprintf("request %d, 5 of the user and 2 of the organisation", i+1))
		}
		if left := c.left(user, k.ByHeader("User")); left["user"] != 3 {
			c.errorf("%v are left of the user's 5, want 3: the denied requests take nothing", left)
		}
		c.wantStatus(app.send(request{header: header("User", "bob")}), http.StatusTooManyRequests, "another user of the organisation")
	})
	s.rule("a denied request does not reach the handler", func(c *trial) {
		var calls atomic.Int64
		app := c.serve(c.app(counted(&calls, answer(http.StatusOK)), middleware{Together: []rule{{c.named("one", 1), k.Global("all")}, {c.named("two", 9), k.Global("all")}}}))
		for _, status := range []int{200, 429, 429} {
			c.wantStatus(app.send(request{}), status, "a request")
		}
		if n := calls.Load(); n != 1 {
			c.errorf("the handler was called %d times, want once", n)
		}
	})
	s.rule("NewTogether of one rule is New", func(c *trial) {
		l := c.named("one", 2)
		app := c.useTogether([]rule{{l, k.Global("all")}})
		for _, status := range []int{200, 200, 429} {
			got := app.send(request{})
			c.wantStatus(got, status, "a request")
			c.wantListed(got, "a request", "one")
		}
	})
}

// jointFields checks the header fields of several limiters.
func (s *suite) jointFields() {
	k := s.kit
	s.rule("responses have the fields of one draft, the first limiter's, whichever is the tightest", func(c *trial) {
		for _, styles := range [][2]core.HeaderStyle{{core.HeadersDraft6, core.HeadersDraft8}, {core.HeadersDraft8, core.HeadersDraft6}} {
			for _, limits := range [][2]core.Limit{{burst, quota}, {quota, burst}} {
				var rules []rule
				for i, limit := range limits {
					policy := core.Policy{Name: fmt.Sprint(styles, i), Limits: []core.Limit{limit}, Headers: styles[i]}
					rules = append(rules, rule{c.limiter(policy), k.Global(limits[0].Name)})
				}
				app, both := c.useTogether(rules), newModel(quota, burst) // the tightest last
				for i := range 6 {
					d := decision{both, 1, both.take(1), c.clock.Now()}
					got := app.send(request{})
					when := fmt.Sprintf("%v, request %d, answered %d", styles, i+1, got.status)
					c.wantStatus(got, map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[d.allowed], when)
					if wrong := c.wrongFields(got.header, styles[0], d, d); wrong != "" {
						c.errorf("%s:\n%s", when, wrong)
					}
				}
			}
		}
	})
	s.rule("responses have the fields of all limiters; fields of one value are those of the tightest", func(c *trial) {
		for _, order := range [][]string{{"few", "many", "most"}, {"many", "most", "few"}, {"most", "few", "many"}} {
			capacity := map[string]int64{"few": 1, "many": 5, "most": 9}
			var rules []rule
			for _, name := range order {
				rules = append(rules, rule{c.named(name, capacity[name]), k.Global(strings.Join(order, " "))})
			}
			app := c.useTogether(rules)
			for _, want := range []struct {
				status          int
				remaining, most string
			}{{200, "0", "few 0, many 4, most 8"}, {429, "0", ""}} {
				got := app.send(request{})
				when := fmt.Sprint(order)
				c.wantStatus(got, want.status, when)
				c.wantListed(got, when, "few", "many", "most")
				if !c.kit.NoFields && (got.header.Get(legacyLimit) != "1" || got.header.Get(legacyRemaining) != want.remaining || len(got.header.Values(legacyLimit)) != 1) {
					c.errorf("%s, answered %d: X-RateLimit-Limit and -Remaining are %q and %q, want those of few", when, got.status, got.header.Values(legacyLimit), got.header.Values(legacyRemaining))
				}
				if want.status != http.StatusOK {
					continue
				}
				c.wantAll(got, want.most, when+": the tightest comes first")
				if got.body != "remaining 0 of 1 limits, from store" {
					c.errorf("%s: FromContext returned %q, want the tightest limiter's", when, got.body)
				}
			}
		}
	})
}

// jointRetryAfter checks how long several limiters tell a client to wait.
func (s *suite) jointRetryAfter() {
	k := s.kit
	s.rule("Retry-After is the longest of all limiters", func(c *trial) {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			quick := core.Limit{Capacity: 1, RefillRate: 1, RefillInterval: 7 * time.Second}
			slower := core.Limit{Capacity: 1, RefillRate: 1, RefillInterval: 70 * time.Second}
			key := k.Global(fmt.Sprint(order))
			rules := []rule{{c.limiter(core.Policy{Name: "quick", Limits: []core.Limit{quick}}), key}, {c.limiter(core.Policy{Name: "slower", Limits: []core.Limit{slower}}), key}}
			app := c.useTogether([]rule{rules[order[0]], rules[order[1]]})
			c.wantStatus(app.send(request{}), http.StatusOK, "the first request")
			got := app.send(request{})
			c.wantStatus(got, http.StatusTooManyRequests, "the second request")
			if after := got.header.Values(retryAfterField); !slices.Equal(after, []string{"70"}) {
				c.errorf("Retry-After is %q, want 70: of 7 and 70 the longest", after)
			}
			if cache := got.header.Values(cacheField); !slices.Equal(cache, []string{"no-store"}) {
				c.errorf("Cache-Control is %q, want no-store", cache)
			}
		}
	})
	s.rule("a request that one limiter can never allow has no Retry-After", func(c *trial) {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			rules := []rule{{c.named("small", 2), k.Global(fmt.Sprint(order))}, {c.named("used", 5), k.Global(fmt.Sprint(order))}}
			app := c.useTogether([]rule{rules[order[0]], rules[order[1]]}, k.WithCost(costHeader))
			c.wantStatus(app.send(request{header: header("Cost", "2")}), http.StatusOK, "cost 2")
			got := app.send(request{header: header("Cost", "4")})
			c.wantStatus(got, http.StatusTooManyRequests, "cost 4 of at most 2, and of 3 of 5")
			if after := got.header.Values(retryAfterField); len(after) > 0 {
				c.errorf("Retry-After is %q, want none", after)
			}
		}
	})
}

// jointDenial checks what is answered if one of several limiters denies.
func (s *suite) jointDenial() {
	k := s.kit
	s.rule("the default answer to a denial names the limits of all limiters that lack tokens, and no others", func(c *trial) {
		shadow := core.Policy{Name: "shadow", Limits: []core.Limit{slow(1)}, Shadow: true}
		app := c.useTogether([]rule{{c.named("one", 1), k.Global("all")}, {c.named("two", 9), k.Global("all")}, {c.named("three", 1), k.Global("all")},
			{c.limiter(shadow), k.Global("all")}})
		c.wantStatus(app.send(request{}), http.StatusOK, "the first request")
		got := app.send(request{})
		if !k.ProblemBody {
			c.wantStatus(got, http.StatusTooManyRequests, "the second request")
			return
		}
		p := c.wantProblem(got, http.StatusTooManyRequests, "the second request")
		slices.Sort(p.ViolatedPolicies)
		if p.Type != quotaExceeded || !slices.Equal(p.ViolatedPolicies, []string{"one", "three"}) {
			c.errorf("the body is %q, want type %s and the violated policies one and three", got.body, quotaExceeded)
		}
	})
	s.rule("OnDenied gets the denial of all limiters", func(c *trial) {
		var seen atomic.Pointer[core.Result]
		app := c.useTogether([]rule{{c.named("one", 9), k.Global("all")}, {c.named("two", 1), k.Global("all")}, {c.named("three", 5), k.Global("all")}},
			k.OnDenied(func(res core.Result) (int, string) {
				seen.Store(&res)
				return http.StatusTeapot, "mine"
			}))
		c.wantStatus(app.send(request{}), http.StatusOK, "the first request")
		got := app.send(request{})
		if got.status != http.StatusTeapot || got.body != "mine" {
			c.errorf("answered %d %q, want what OnDenied wrote", got.status, got.body)
		}
		c.wantListed(got, "the second request", "one", "two", "three")
		res := seen.Load()
		if res == nil || res.Allowed || res.RetryAfter <= 0 {
			c.errorf("OnDenied got %+v, want a denial", res)
			return
		}
		var limits []string
		for _, l := range res.Limits() {
			limits = append(limits, fmt.Sprint(l.Limit.Name, " ", l.Violated))
		}
		if want := []string{"one false", "two true", "three false"}; !slices.Equal(limits, want) {
			c.errorf("OnDenied got limits %q, want %q: which of them lack tokens", limits, want)
		}
		if p := core.Problem(*res); !slices.Equal(p.ViolatedPolicies, []string{"two"}) {
			c.errorf("core.Problem of it names %q, want two", p.ViolatedPolicies)
		}
	})
}

// jointCosts checks what a request takes from each of several limiters.
func (s *suite) jointCosts() {
	k := s.kit
	s.rule("cost and units go to each limiter that counts them", func(c *trial) {
		calls, both := c.named("calls only", 9), c.limiter(counting("both", 9, 50))
		counted := c.limiter(core.Policy{Name: "words only", Limits: []core.Limit{counting("", 1, 50).Limits[1]}})
		app := c.useTogether([]rule{{calls, k.Global("all")}, {both, k.Global("all")}, {counted, k.Global("all")}}, k.WithCost(costHeader), k.WithUnits(words))
		c.wantStatus(app.send(request{header: header("Cost", "2", "Words", "20")}), http.StatusOK, "2 requests and 20 words")
		c.wantStatus(app.send(request{header: header("Cost", "1")}), http.StatusOK, "1 request and nil units")
		c.wantStatus(app.send(request{header: header("Cost", "1", "Words", "31")}), http.StatusTooManyRequests, "31 of 30 words")
		c.wantLeft(calls, "afterwards", "calls only", 6)
		c.wantLeft(both, "afterwards", "calls", 6, "words", 30)
		c.wantLeft(counted, "afterwards", "words", 30)
		app = c.useTogether([]rule{{calls, k.Global("all")}, {both, k.Global("all")}}, k.WithUnits(words), k.WithCost(unknownCost))
		c.wantStatus(app.send(request{header: header("Words", "3")}), http.StatusTooManyRequests, "an unknown cost: all of 6 of 9")
	})
	s.rule("an unknown cost takes the whole Capacity of each limiter", func(c *trial) {
		one, two := c.named("one", 3), c.named("two", 7)
		app := c.useTogether([]rule{{one, k.Global("all")}, {two, k.Global("all")}}, k.WithCost(unknownCost))
		c.wantStatus(app.send(request{}), http.StatusOK, "a request")
		c.wantLeft(one, "afterwards", "one", 0)
		c.wantLeft(two, "afterwards", "two", 0)
	})
	s.rule("a skipped request takes nothing", func(c *trial) {
		one, two := c.named("one", 3), c.named("two", 3)
		app := c.useTogether([]rule{{one, k.Global("all")}, {two, k.ByHeader("Nobody")}}, k.WithSkip(func(Header) bool { return true }))
		if got := app.send(request{}); got.status != http.StatusOK || got.body != "no result" || len(limitFields(got.header)) > 0 || got.header.Get(AllHeader) != "" {
			c.errorf("a skipped request was answered %d %q with %v", got.status, got.body, got.header)
		}
		c.wantLeft(one, "afterwards", "one", 3)
	})
}

// jointFailures checks that a request which can't be decided takes nothing.
func (s *suite) jointFailures() {
	k := s.kit
	s.rule("a missing key of any rule is 400, and nothing is taken", func(c *trial) {
		one, two := c.named("one", 3), c.named("two", 3)
		for _, rules := range [][]rule{{{one, k.Global("all")}, {two, k.ByHeader("Nobody")}}, {{one, k.ByHeader("Nobody")}, {two, k.Global("all")}}} {
			c.wantRefusal(c.useTogether(rules).send(request{}), http.StatusBadRequest, "the request")
		}
		failing := k.Custom(func(Header) (string, error) { return "", errSecret })
		c.wantRefusal(c.useTogether([]rule{{one, k.Global("all")}, {two, failing}}).send(request{}), http.StatusInternalServerError, "a failing key")
		c.wantLeft(one, "afterwards", "one", 3)
		c.wantLeft(two, "afterwards", "two", 3)
	})
	for _, bad := range []struct {
		rule    string
		options []anyOption
	}{
		{"an error of the cost function", []anyOption{k.WithCost(func(Header) (int64, error) { return 1, errSecret })}},
		{"a negative cost", []anyOption{k.WithCost(func(Header) (int64, error) { return -1, nil })}},
		{"an error of the units function", []anyOption{k.WithUnits(func(Header) (core.Units, error) { return nil, errSecret })}},
		{"a negative number of units", []anyOption{k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": -1}, nil })}},
		{"a unit that none of the limiters counts", []anyOption{k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 1, "pages": 1}, nil })}},
	} {
		s.rule(bad.rule+" is answered with 500, and nothing is taken", func(c *trial) {
			one, two := c.named("one", 3), c.limiter(counting("two", 3, 9))
			app := c.useTogether([]rule{{one, k.Global("all")}, {two, k.Global("all")}}, append([]anyOption{k.WithUnits(words)}, bad.options...)...)
			c.wantRefusal(app.send(request{}), http.StatusInternalServerError, "the request")
			c.wantLeft(one, "afterwards", "one", 3)
			c.wantLeft(two, "afterwards", "calls", 3, "words", 9)
		})
	}
}

// jointShadow checks limiters in shadow mode beside others.
func (s *suite) jointShadow() {
	k := s.kit
	s.rule("a limiter in shadow mode denies nothing, sends no fields, and is charged with the others", func(c *trial) {
		policy := core.Policy{Name: "trial", Limits: []core.Limit{slow(2)}, Shadow: true}
		one := c.named("one", 4)
		for _, rules := range [][]rule{{{c.limiter(policy), k.Global("all")}, {one, k.Global("all")}}} {
			app := c.useTogether(rules)
			for i, status := range []int{200, 200, 200, 200, 429} {
				got := app.send(request{})
				when := fmt.Sprintf("request %d, of 4, and of 2 that are not enforced", i+1)
				c.wantStatus(got, status, when)
				c.wantListed(got, when, "one")
				if want := fmt.Sprintf("remaining %d of 1 limits, from store", 3-i); status == http.StatusOK && got.body != want {
					c.errorf("%s: FromContext returned %q, want that of the limiter that is enforced: %q", when, got.body, want)
				}
			}
		}
		policy.Shadow = false
		c.wantLeft(c.limiter(policy), "afterwards", "trial", 0)
	})
	s.rule("a missing key of a limiter in shadow mode refuses nothing, and the others decide", func(c *trial) {
		policy := core.Policy{Name: "trial", Limits: []core.Limit{slow(2)}, Shadow: true}
		for _, first := range []bool{true, false} {
			rules := []rule{{c.limiter(policy), k.ByHeader("Nobody")}, {c.named("one", 1), k.Global(fmt.Sprint(first))}}
			if !first {
				slices.Reverse(rules)
			}
			app := c.useTogether(rules)
			log := logtest.Capture(func() {
				for _, status := range []int{200, 429, 429} {
					got := app.send(request{})
					c.wantStatus(got, status, "a request")
					c.wantListed(got, "a request", "one")
				}
			})
			if n := strings.Count(log, "shadow mode"); n != 1 {
				c.errorf("the missing key was logged %d times, want once: %s", n, log)
			}
		}
	})
}

// jointShadowUnits checks what limiters in shadow mode count, and limiters that
// are all in shadow mode.
func (s *suite) jointShadowUnits() {
	k := s.kit
	s.rule("a unit that only a limiter in shadow mode counts refuses nothing, with its key or without", func(c *trial) {
		policy := counting("trial", 9, 50)
		policy.Shadow = true
		app := c.useTogether([]rule{{c.named("one", 2), k.Global("all")}, {c.limiter(policy), k.ByHeader("User")}}, k.WithUnits(words))
		for i, status := range []int{200, 200, 429} {
			fields := header("Words", "7")
			if i == 1 {
				fields = header("Words", "7", "User", "ann")
			}
			c.wantStatus(app.send(request{header: fields}), status, fmt.Sprint("request ", i+1))
		}
	})
	s.rule("a limiter in shadow mode that counts no requests refuses nothing without WithUnits", func(c *trial) {
		trying := core.Policy{Name: "trial", Limits: []core.Limit{counting("", 1, 50).Limits[1]}, Shadow: true}
		app := c.useTogether([]rule{{c.limiter(trying), k.Global("all")}, {c.named("one", 1), k.Global("all")}})
		log := logtest.Capture(func() {
			for _, status := range []int{200, 429} {
				c.wantStatus(app.send(request{}), status, "a request")
			}
		})
		if n := strings.Count(log, "shadow mode"); n != 1 {
			c.errorf("the mistake was logged %d times, want once: %s", n, log)
		}
	})
	s.rule("if all limiters are in shadow mode, nothing is refused", func(c *trial) {
		var rules []rule
		for _, name := range []string{"one", "two"} {
			rules = append(rules, rule{c.limiter(core.Policy{Name: name, Limits: []core.Limit{slow(1)}, Shadow: true}), k.ByHeader("User")})
		}
		app := c.useTogether(rules)
		for _, user := range []string{"ann", "ann", "ann", ""} {
			got := app.send(request{header: header("User", user)})
			c.wantStatus(got, http.StatusOK, "a request of "+user)
			if len(limitFields(got.header)) > 0 {
				c.errorf("the answer has fields of limits that are not enforced: %v", got.header)
			}
		}
	})
}
