package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// jointOutages checks NewTogether while the store of one limiter does not
// answer.
func (s *suite) jointOutages() {
	k := s.kit
	for _, both := range []bool{false, true} {
		away := func(c *trial, mode core.FailureMode) (*core.Limiter, *server) {
			one := c.named("one", 4)
			if both {
				one = c.limiterOn(brokenStore{}, core.Policy{Name: "one", Limits: []core.Limit{slow(4)}, OnFailure: mode})
			}
			two := c.limiterOn(brokenStore{}, core.Policy{Name: "two", Limits: []core.Limit{slow(2)}, OnFailure: mode})
			return one, c.useTogether([]rule{{one, k.Global("all")}, {two, k.Global("all")}})
		}
		s.rule(fmt.Sprintf("FailClosed of a limiter answers 503 and takes nothing from the others (both away: %v)", both), func(c *trial) {
			one, app := away(c, core.FailClosed)
			got := app.send(request{})
			c.wantRefusal(got, http.StatusServiceUnavailable, "the request")
			if got.header.Get(retryAfterField) == "" {
				c.errorf("the answer has no Retry-After: %v", got.header)
			}
			if !both {
				c.wantLeft(one, "afterwards", "one", 4)
			}
		})
		s.rule(fmt.Sprintf("FailOpen of a limiter leaves the decision to the others (both away: %v)", both), func(c *trial) {
			_, app := away(c, core.FailOpen)
			for i, status := range []int{200, 200, 200, 200, 429} {
				if both {
					status = http.StatusOK
				}
				got := app.send(request{})
				when := fmt.Sprintf("request %d", i+1)
				c.wantStatus(got, status, when)
				switch want := fmt.Sprintf("one %d, none 0", 3-i); {
				case both && (len(limitFields(got.header)) > 0 || got.header.Get(AllHeader) != "none 0, none 0"):
					c.errorf("%s: answered with %v, want no fields of a limit", when, got.header)
				case !both && status == http.StatusOK:
					c.wantAll(got, want, when+": who decided nothing comes last")
					c.wantListed(got, when, "one")
				}
			}
		})
		s.rule(fmt.Sprintf("FailLocal of a limiter limits each process on its own (both away: %v)", both), func(c *trial) {
			one, app := away(c, core.FailLocal)
			for i, status := range []int{200, 200, 429, 429} {
				got := app.send(request{})
				c.wantStatus(got, status, fmt.Sprintf("request %d with a capacity of 2", i+1))
				c.wantListed(got, "with the fallback", "one", "two")
			}
			if !both {
				c.wantLeft(one, "afterwards", "one", 2)
			}
		})
	}
}

// jointEnds checks refunds and settlements of a joint decision, and other
// limiters around it.
func (s *suite) jointEnds() {
	s.jointReturns()
	s.jointStacked()
	s.jointOneBucket()
	s.jointRequests()
}

// jointReturns checks refunds and settlements of several limiters.
func (s *suite) jointReturns() {
	k := s.kit
	s.rule("WithRefund returns the tokens to all limiters", func(c *trial) {
		var reported statuses
		one, two := c.named("one", 4), c.named("two", 4)
		for _, status := range []int{500, 200} {
			app := c.serve(c.app(answer(status), middleware{Together: []rule{{one, k.Global("all")}, {two, k.Global("all")}},
				Options: []anyOption{k.WithRefund(reported.refunding), k.WithCost(costHeader)}}))
			c.wantStatus(app.send(request{header: header("Cost", "3")}), status, "the request")
			left := map[int]int{500: 4, 200: 1}[status]
			c.wantLeft(one, fmt.Sprint("after ", status), "one", left)
			c.wantLeft(two, fmt.Sprint("after ", status), "two", left)
		}
		if seen := reported.all(); !slices.Equal(seen, []int{500, 200}) {
			c.errorf("Refund was called with %v, want 500 and 200", seen)
		}
	})
	s.rule("WithSettle settles in each limiter what it counts, and is called once", func(c *trial) {
		one, two := c.named("one", 9), c.limiter(counting("two", 9, 50))
		settled := settlements{units: func() core.Units { return core.Units{core.Requests: 3, "words": 5} }}
		app := c.useTogether([]rule{{one, k.Global("all")}, {two, k.Global("all")}}, k.WithUnits(words), k.WithSettle(settled.settle))
		c.wantStatus(app.send(request{header: header("Words", "20")}), http.StatusOK, "the request")
		c.wantSettled(&settled, 200)
		c.wantLeft(one, "afterwards", "one", 6)
		c.wantLeft(two, "afterwards", "calls", 6, "words", 45)
		c.wantStatus(app.send(request{header: header("Words", "46")}), http.StatusTooManyRequests, "46 of 45 words")
		c.wantSettled(&settled, 200)
	})
	s.rule("a joint settlement that fails is logged once and not requests", func(c *trial) {
		failing := c.limiterOn(&failingStore{Store: c.store, good: 1}, core.Policy{Name: "two", Limits: []core.Limit{slow(9)}})
		one := c.named("one", 9)
		settled := settlements{units: func() core.Units { return core.Units{core.Requests: 3} }}
		app := c.useTogether([]rule{{one, k.Global("all")}, {failing, k.Global("all")}}, k.WithSettle(settled.settle))
		log := logtest.Capture(func() {
			got := app.send(request{})
			c.wantStatus(got, http.StatusOK, "the request")
			if strings.Contains(fmt.Sprint(got), secret) {
				c.errorf("the answer shows an internal error: %v", got)
			}
		})
		if n := strings.Count(log, "could not be settled"); n != 1 {
			c.errorf("the failure was logged %d times, want once: %s", n, log)
		}
		c.wantLeft(one, "the limiter whose store answers", "one", 6)
	})
}

// jointStacked checks several limiters in front of or behind others.
func (s *suite) jointStacked() {
	k := s.kit
	s.rule("limiters in front and behind: all fields are sent, and AllFromContext returns all, the newest first", func(c *trial) {
		app := c.serve(c.app(answer(http.StatusOK),
			middleware{Limiter: c.named("front", 9), Key: k.Global("all")},
			middleware{Together: []rule{{c.named("one", 2), k.Global("all")}, {c.named("two", 5), k.Global("all")}}},
			middleware{Limiter: c.named("behind", 7), Key: k.Global("all")}))
		got := app.send(request{})
		c.wantAll(got, "behind 6, one 1, two 4, front 8", "through all")
		c.wantListed(got, "through all", "front", "one", "two", "behind")
		if !c.kit.NoFields && (got.header.Get(legacyLimit) != "2" || got.header.Get(legacyRemaining) != "1") {
			c.errorf("X-RateLimit-Limit and -Remaining are %q and %q, want those of the tightest", got.header.Get(legacyLimit), got.header.Get(legacyRemaining))
		}
		c.wantStatus(app.send(request{}), http.StatusOK, "the second request")
		got = app.send(request{})
		c.wantStatus(got, http.StatusTooManyRequests, "the third request, of which one has no token")
		c.wantListed(got, "the third request", "front", "one", "two")
	})
	s.rule("AllFromContext returns nothing without a limiter, and one result with one", func(c *trial) {
		if got := c.serve(c.app(answer(http.StatusOK))).send(request{}); got.header.Get(AllHeader) != "" {
			c.errorf("without a limiter it returned %q", got.header.Get(AllHeader))
		}
		c.wantAll(c.use(c.named("one", 3), k.Global("all")).send(request{}), "one 2", "with one limiter")
	})
	s.rule("a warning is logged once if a request is charged twice by one policy for the same key", func(c *trial) {
		one := c.named("one", 99)
		app := c.serve(c.app(answer(http.StatusOK),
			middleware{Limiter: one, Key: k.Global("all")},
			middleware{Together: []rule{{one, k.Global("all")}, {c.named("two", 99), k.Global("all")}}}))
		log := logtest.Capture(func() {
			for range 3 {
				c.wantStatus(app.send(request{}), http.StatusOK, "a request")
			}
		})
		if n := strings.Count(log, "charged twice"); n != 1 || !strings.Contains(log, "policy=one") {
			c.errorf("the warning was logged %d times, want once: %s", n, log)
		}
		log = logtest.Capture(func() {
			app := c.useTogether([]rule{{one, k.Global("all")}, {one, k.Global("others")}})
			c.wantStatus(app.send(request{}), http.StatusOK, "two keys of one limiter")
		})
		if log != "" {
			c.errorf("two keys of one limiter are no mistake: %s", log)
		}
	})
}

// jointOneBucket checks rules that share a bucket.
func (s *suite) jointOneBucket() {
	k := s.kit
	s.rule("rules whose keys give one bucket are one charge of the sum", func(c *trial) {
		one, two := c.named("one", 5), c.named("two", 9)
		byUser := k.FirstOf(k.ByHeader("User"), k.Global("all"))
		rules := []rule{{one, k.Global("all")}, {two, k.Global("all")}, {one, byUser}}
		app := c.useTogether(rules, k.WithCost(costHeader))
		got := app.send(request{header: header("Cost", "2")})
		c.wantStatus(got, http.StatusOK, "2 and 2 of 5")
		c.wantListed(got, "the header fields list the bucket once", "one", "two")
		if left := got.header.Get(legacyRemaining); left != "1" && !c.kit.NoFields {
			c.errorf("X-RateLimit-Remaining is %q, want 1: the bucket after both charges", left)
		}
		got = app.send(request{header: header("Cost", "1")})
		c.wantStatus(got, http.StatusTooManyRequests, "1 and 1 of 1")
		if k.ProblemBody {
			if p := c.wantProblem(got, http.StatusTooManyRequests, "1 and 1 of 1"); !slices.Equal(p.ViolatedPolicies, []string{"one"}) {
				c.errorf("the violated policies are %q, want one, once", p.ViolatedPolicies)
			}
		}
		c.wantLeft(one, "a denial takes nothing", "one", 1)
		c.wantLeft(two, "a denial takes nothing", "two", 7)
		c.wantStatus(app.send(request{header: header("Cost", "1", "User", "ann")}), http.StatusOK, "another key for one of the rules")
		c.wantLeft(one, "afterwards", "one", 0)

		body := c.named("body", 3)
		app = c.useTogether([]rule{{body, k.Global("all")}, {body, byUser}}, k.WithCost(unknownCost))
		c.wantStatus(app.send(request{}), http.StatusOK, "an unknown cost takes the whole Capacity once")
		c.wantLeft(body, "afterwards", "body", 0)

		trial := c.limiter(core.Policy{Name: "twice", Limits: []core.Limit{slow(3)}, Shadow: true})
		enforced := c.named("twice", 3)
		app = c.useTogether([]rule{{trial, k.Global("all")}, {enforced, k.Global("all")}})
		for i, left := range []int{1, 0, 0} {
			status := []int{200, 200, 429}[i]
			c.wantStatus(app.send(request{}), status, fmt.Sprintf("request %d of a policy in shadow mode and the enforced one, with one bucket of 3", i+1))
			c.wantLeft(enforced, "afterwards", "twice", left)
		}
	})
}

// jointRequests checks requests that end early, share a connection or come at
// once.
func (s *suite) jointRequests() {
	k := s.kit
	s.rule("a request whose context has ended takes nothing", func(c *trial) {
		one, two := c.named("one", 3), c.named("two", 3)
		app := c.app(answer(http.StatusOK), middleware{Together: []rule{{one, k.Global("all")}, {two, k.Global("all")}}})
		app.Context = func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		}
		c.wantRefusal(c.serve(app).send(request{}), http.StatusServiceUnavailable, "the request")
		c.wantLeft(one, "afterwards", "one", 3)
	})
	s.rule("keys that arrive over one connection keep their own buckets in NewTogether", func(c *trial) {
		raw := k.Custom(func(h Header) (string, error) { return h("User"), nil })
		app := c.useTogether([]rule{{c.named("one", 1), raw}, {c.named("two", 99), k.Global("all")}})
		for _, status := range []int{200, 429} {
			for i := range 20 {
				c.wantStatus(app.send(request{header: header("User", fmt.Sprintf("user-%03d", i))}), status, fmt.Sprint("user ", i))
			}
		}
	})
	s.rule("as many concurrent requests pass together as the smallest capacity allows", func(c *trial) {
		app := c.useTogether([]rule{{c.named("one", 40), k.Global("all")}, {c.named("two", 17), k.Global("all")}})
		var allowed atomic.Int64
		done := make(chan struct{}, 8)
		for range 8 {
			go func() {
				defer func() { done <- struct{}{} }()
				for range 10 {
					if got, err := app.try(context.Background(), request{}); err == nil && got.status == http.StatusOK {
						allowed.Add(1)
					}
				}
			}()
		}
		for range 8 {
			next(c, done, "the end of ten requests")
		}
		if n := allowed.Load(); n != 17 {
			c.errorf("%d of 80 requests passed, want 17", n)
		}
	})
}

// jointMistakes checks that NewTogether panics if the program gives it wrong
// arguments.
func (s *suite) jointMistakes() {
	k := s.kit
	var none anyKey
	var cost []anyOption
	keysAndCost := []string{`: "X User" must be`, `Global: "" must be`}
	if !k.RPC {
		cost, keysAndCost = append(cost, k.CostByContentLength(0)), append(keysAndCost, "CostByContentLength bytesPerToken: 0 must be")
	}
	for _, mistake := range []struct {
		rule    string
		rules   func(l *core.Limiter) []rule
		options []anyOption
		want    []string
	}{
		{"no rules", func(*core.Limiter) []rule { return []rule{} }, nil, []string{"NewTogether: 0 rules given"}},
		{"a nil limiter and a nil key", func(l *core.Limiter) []rule { return []rule{{l, none}, {nil, k.Global("all")}} }, nil,
			[]string{"NewTogether rules[0].Key: <nil> must be", "NewTogether rules[1].Limiter: <nil> must be"}},
		{"mistakes in several keys and in the cost", func(l *core.Limiter) []rule { return []rule{{l, k.ByHeader("X User")}, {l, k.Global("")}} },
			cost, keysAndCost},
		{"WithLimits", func(l *core.Limiter) []rule { return []rule{{l, k.Global("all")}, {l, k.Global("others")}} },
			[]anyOption{k.WithLimits(func(Header) ([]core.Limit, error) { return nil, nil })}, []string{"WithLimits"}},
		{"WithSettle and WithRefund", func(l *core.Limiter) []rule { return []rule{{l, k.Global("all")}, {nil, k.Global("others")}} },
			[]anyOption{k.WithSettle(giving(1).settle), k.WithRefund(func(Header, int) bool { return false })}, []string{"WithSettle", "WithRefund", "rules[1].Limiter"}},
	} {
		s.rule("NewTogether panics with every mistake: "+mistake.rule, func(c *trial) {
			c.wantPanic(middleware{Together: mistake.rules(c.holding(1)), Options: mistake.options}, mistake.want...)
		})
	}
}
