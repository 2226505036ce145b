package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// counting returns a policy of two limits: calls counts requests, and words
// counts words.
func counting(name string, calls, words int64) core.Policy {
	counted := slow(words).WithName("words")
	counted.Unit = "words"
	return core.Policy{Name: name, Limits: []core.Limit{slow(calls).WithName("calls"), counted}}
}

// words is a units function that reads the number of words from the field
// Words. Without the field it returns nil.
func words(h Header) (core.Units, error) {
	var n int64
	if _, err := fmt.Sscan(h("Words"), &n); err != nil {
		return nil, nil //nolint:nilerr,nilnil // requests alone
	}
	return core.Units{"words": n}, nil
}

// left sends a request that takes nothing, and returns what each limit of l has
// left for key.
func (c *trial) left(l *core.Limiter, key anyKey) map[string]int64 {
	c.t.Helper()
	options := []anyOption{c.kit.WithUnits(words), c.kit.WithSettle(func(Header, int) core.Units { return nil })}
	if slices.ContainsFunc(l.Policy().Limits, func(l core.Limit) bool { return l.Unit == "" || l.Unit == core.Requests }) {
		options = append(options, c.kit.WithCost(func(Header) (int64, error) { return 0, nil }))
	}
	left := make(map[string]int64)
	app := c.serve(c.app(func(context.Context) Reply {
		return Reply{Status: http.StatusOK, Decided: func(res core.Result, _ bool) {
			for _, limit := range res.Limits() {
				left[limit.Limit.Name] = limit.Remaining
			}
		}}
	}, middleware{Limiter: l, Key: key, Options: options}))
	got := app.send(request{header: header("User", "ann")})
	c.wantStatus(got, http.StatusOK, "a request that takes nothing")
	return left
}

// wantLeft checks what each limit of l has left for the key Global("all"). what
// alternates names and numbers.
func (c *trial) wantLeft(l *core.Limiter, when string, what ...any) {
	c.t.Helper()
	left := c.left(l, c.kit.Global("all"))
	for i := 0; i < len(what); i += 2 {
		name, want := what[i].(string), int64(what[i+1].(int))
		if left[name] != want {
			c.errorf("%s: %q has %d left, want %d", when, name, left[name], want)
		}
	}
}

// units checks WithUnits.
func (s *suite) units() {
	s.unitsTaken()
	s.unitsUnknown()
	s.unitsCounted()
	s.untaken()
	s.neverSettled()
	s.unitsErrors()
}

// unitsTaken checks what requests with units take.
func (s *suite) unitsTaken() {
	k := s.kit
	s.rule("WithUnits takes units and a request together, all or nothing", func(c *trial) {
		l := c.limiter(counting("test", 4, 100))
		app := c.use(l, k.Global("all"), k.WithUnits(words))
		c.wantStatus(app.send(request{header: header("Words", "30")}), http.StatusOK, "30 of 100 words")
		c.wantLeft(l, "after 30 words", "calls", 3, "words", 70)
		got := app.send(request{header: header("Words", "71")})
		c.wantStatus(got, http.StatusTooManyRequests, "71 of 70 words")
		if k.ProblemBody {
			if p := c.wantProblem(got, http.StatusTooManyRequests, "71 of 70 words"); !slices.Equal(p.ViolatedPolicies, []string{"words"}) {
				c.errorf("violated-policies are %q, want only words", p.ViolatedPolicies)
			}
		}
		c.wantLeft(l, "after a denial", "calls", 3, "words", 70)
		c.wantStatus(app.send(request{header: header("Words", "70")}), http.StatusOK, "70 of 70 words")
		c.wantStatus(app.send(request{header: header("Words", "0")}), http.StatusOK, "0 words")
		c.wantLeft(l, "at the end", "calls", 1, "words", 0)
	})
	s.fields("RateLimit-Policy names the unit of a limit, but not requests", func(c *trial) {
		app := c.use(c.limiter(counting("test", 4, 100)), k.Global("all"), k.WithUnits(words))
		got := members(app.send(request{header: header("Words", "1")}).header, policyField)
		first, second, _ := strings.Cut(got, ", ")
		if strings.Contains(first, "qu=") || !strings.Contains(second, " qu=words") {
			c.errorf("RateLimit-Policy is %q, want qu=words at the second member alone", got)
		}
	})
	s.rule("nil units take a request alone, and units can take no request", func(c *trial) {
		l := c.limiter(counting("test", 4, 100))
		app := c.use(l, k.Global("all"), k.WithUnits(func(h Header) (core.Units, error) {
			if h("Words") == "" {
				return nil, nil //nolint:nilnil // requests alone
			}
			return core.Units{core.Requests: 0, "words": 5}, nil
		}))
		c.wantStatus(app.send(request{}), http.StatusOK, "nil units")
		c.wantLeft(l, "after nil units", "calls", 3, "words", 100)
		c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "0 requests and 5 words")
		c.wantLeft(l, "after 0 requests and 5 words", "calls", 3, "words", 95)
	})
	s.rule("with WithCost and WithUnits the cost is in requests", func(c *trial) {
		l := c.limiter(counting("test", 9, 100))
		app := c.use(l, k.Global("all"), k.WithUnits(words), k.WithCost(costHeader))
		c.wantStatus(app.send(request{header: header("Cost", "3", "Words", "10")}), http.StatusOK, "3 requests and 10 words")
		c.wantLeft(l, "after 3 requests and 10 words", "calls", 6, "words", 90)
		c.wantStatus(app.send(request{header: header("Cost", "2")}), http.StatusOK, "2 requests")
		c.wantLeft(l, "after 2 requests and nil units", "calls", 4, "words", 90)
		c.wantStatus(app.send(request{header: header("Cost", "5", "Words", "1")}), http.StatusTooManyRequests, "5 of 4 requests")
		c.wantRefusal(app.send(request{header: header("Cost", "-1", "Words", "1")}), http.StatusInternalServerError, "-1 requests")
		c.wantRefusal(app.send(request{header: header("Cost", "x", "Words", "1")}), http.StatusInternalServerError, "an error of the cost function")
		c.wantLeft(l, "at the end", "calls", 4, "words", 90)
	})
}

// unknownCost is a cost function of requests whose size is not known.
func unknownCost(Header) (int64, error) { return 0, core.ErrUnknownCost }

// unitsUnknown checks an unknown cost beside units.
func (s *suite) unitsUnknown() {
	k := s.kit
	s.rule("an unknown cost takes the whole Capacity of the limits that count requests, besides the units", func(c *trial) {
		l := c.limiter(counting("test", 9, 5))
		app := c.use(l, k.Global("all"), k.WithUnits(words), k.WithCost(unknownCost))
		c.wantStatus(app.send(request{header: header("Words", "2")}), http.StatusOK, "a request, 2 words")
		c.wantLeft(l, "after it", "calls", 0, "words", 3)
	})
	s.rule("an unknown cost takes the whole Capacity of a key's own limits", func(c *trial) {
		policy := counting("test", 9, 5)
		policy.Overrides = map[string][]core.Limit{"vip": {slow(20).WithName("calls"), policy.Limits[1]}}
		l := c.limiter(policy)
		vip := k.Custom(func(Header) (string, error) { return "vip", nil })
		app := c.use(l, vip, k.WithUnits(words), k.WithCost(unknownCost))
		c.wantStatus(app.send(request{header: header("Words", "2")}), http.StatusOK, "a request")
		if left := c.left(l, vip); left["calls"] != 0 || left["words"] != 3 {
			c.errorf("%v are left, want 0 of 20 calls and 3 of 5 words", left)
		}
	})
}

// unitsCounted checks units that policies count or don't.
func (s *suite) unitsCounted() {
	k := s.kit
	s.rule("units that an override counts, or does not, are no mistake", func(c *trial) {
		policy := counting("test", 9, 5)
		policy.Overrides = map[string][]core.Limit{"vip": {slow(20).WithName("words")}}
		l := c.limiter(policy)
		app := c.use(l, k.Custom(func(Header) (string, error) { return "vip", nil }), k.WithUnits(words))
		c.wantStatus(app.send(request{header: header("Words", "50")}), http.StatusOK, "50 words, of which the key has no limit")
		policy = core.Policy{Name: "other", Limits: policy.Limits[:1], Overrides: map[string][]core.Limit{"vip": {policy.Limits[1].WithName("calls")}}}
		app = c.use(c.limiter(policy), k.Custom(func(h Header) (string, error) { return h("User"), nil }), k.WithUnits(words))
		c.wantStatus(app.send(request{header: header("User", "ann", "Words", "6")}), http.StatusOK, "6 words of a key without a limit of words")
		c.wantStatus(app.send(request{header: header("User", "vip", "Words", "6")}), http.StatusTooManyRequests, "6 words of a key with 5")
	})
	s.rule("a policy that counts no requests takes nothing for nil units", func(c *trial) {
		l := c.limiter(core.Policy{Name: "test", Limits: counting("test", 1, 5).Limits[1:]})
		app := c.use(l, k.Global("all"), k.WithUnits(words))
		c.wantStatus(app.send(request{}), http.StatusOK, "nil units")
		c.wantStatus(app.send(request{header: header("Words", "4")}), http.StatusOK, "4 of 5 words")
		c.wantLeft(l, "after 4 words", "words", 1)
	})
}

// unitsErrors checks errors of a units function, and WithLimits beside it.
func (s *suite) unitsErrors() {
	k := s.kit
	s.rule("WithLimits and WithUnits go together", func(c *trial) {
		app := c.use(c.holding(9), k.Global("all"), k.WithUnits(words),
			k.WithLimits(func(Header) ([]core.Limit, error) { return counting("test", 9, 5).Limits, nil }))
		c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "5 of 5 words")
		c.wantStatus(app.send(request{header: header("Words", "1")}), http.StatusTooManyRequests, "1 of 0 words")
	})
	for _, bad := range []struct {
		rule  string
		units core.Units
		err   error
	}{
		{"an error of the units function is answered with 500 and takes nothing", core.Units{"words": 1}, errSecret},
		{"a unit that no limit counts is answered with 500 and takes nothing", core.Units{"words": 1, secret: 1}, nil},
		{"a negative number of units is answered with 500 and adds nothing", core.Units{"words": -1}, nil},
	} {
		s.rule(bad.rule, func(c *trial) {
			l := c.limiter(counting("test", 4, 100))
			app := c.use(l, k.Global("all"), k.WithUnits(func(Header) (core.Units, error) { return bad.units, bad.err }))
			log := logtest.Capture(func() {
				c.wantRefusal(app.send(request{}), http.StatusInternalServerError, "the bad units")
			})
			if log == "" {
				c.errorf("nothing was logged")
			}
			c.wantLeft(l, "afterwards", "calls", 4, "words", 100)
		})
	}
	if k.Error != nil {
		s.rule("a client error that the units function returns is answered as it is and not logged", func(c *trial) {
			app := c.use(c.limiter(counting("test", 4, 100)), k.Global("all"),
				k.WithUnits(func(Header) (core.Units, error) { return nil, k.Error(http.StatusUnprocessableEntity) }))
			log := logtest.Capture(func() {
				c.wantRefusal(app.send(request{}), http.StatusUnprocessableEntity, "the request")
			})
			if log != "" {
				c.errorf("clients can flood the log: %s", log)
			}
		})
	}
}

// untaken checks what happens to units that nothing takes.
func (s *suite) untaken() {
	k := s.kit
	both := counting("test", 9, 50)
	alone, override := both, both
	alone.Limits = both.Limits[1:]
	override.Limits, override.Overrides = both.Limits[:1], map[string][]core.Limit{"ann": {both.Limits[1].WithName("calls")}}
	plan := override
	plan.Overrides, plan.Plans = nil, map[string][]core.Limit{"pro": both.Limits}
	const mistake = `"words" is a unit that policy "test" counts and this middleware never takes`
	for where, policy := range map[string]core.Policy{"a limit": both, "its only limit": alone, "an override": override, "a plan": plan} {
		s.rule("New and NewTogether panic if "+where+" counts a unit that the middleware never takes", func(c *trial) {
			l := c.limiter(policy)
			c.wantPanic(middleware{Limiter: l, Key: k.Global("all")}, "New limiter: "+mistake)
			c.wantPanic(middleware{Limiter: l}, "New limiter: "+mistake, "New key: <nil>")
			c.wantPanic(middleware{Together: []rule{{c.named("one", 1), k.Global("all")}, {l, k.Global("all")}}}, "NewTogether rules[1].Limiter: "+mistake)
		})
	}
	s.rule("a unit that only WithSettle takes is no mistake, but requests must be counted then", func(c *trial) {
		l := c.limiter(both)
		c.wantStatus(c.use(l, k.Global("all"), k.WithSettle(giving(20).settle)).send(request{}), http.StatusOK, "the request")
		c.wantLeft(l, "afterwards", "calls", 8, "words", 30)
		c.wantPanic(middleware{Limiter: c.limiter(alone), Key: k.Global("all"), Options: []anyOption{k.WithSettle(giving(20).settle)}},
			`New limiter: "requests" is a unit that no limit of policy "test" counts`)
	})
	s.rule("a reload to limits that count no requests is refused, and the requests are served", func(c *trial) {
		for _, together := range []bool{false, true} {
			l := c.named("test", 9)
			var app *server
			if together {
				app = c.useTogether([]rule{{l, k.Global("all")}})
			} else {
				app = c.use(l, k.Global("all"))
			}
			c.wantStatus(app.send(request{}), http.StatusOK, "the request before the reload")
			if err := l.SetPolicy(alone); err == nil || !strings.Contains(err.Error(), `"requests" is a unit that callers take`) {
				c.errorf("SetPolicy returned %v, so every request would get 500", err)
			}
			c.wantStatus(app.send(request{}), http.StatusOK, "the request after the reload")
			if err := l.SetPolicy(both); err != nil {
				c.errorf("SetPolicy to limits of which one counts requests: %v", err)
			}
			c.wantStatus(app.send(request{}), http.StatusOK, "the request after another reload")
		}
	})
	s.rule("a reload to limits that don't count a unit that requests have taken is refused", func(c *trial) {
		l := c.limiter(both)
		app := c.use(l, k.Global("all"), k.WithUnits(words))
		c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "5 words")
		misspelt := both
		misspelt.Limits = []core.Limit{both.Limits[0], both.Limits[1].WithUnit("word")}
		if err := l.SetPolicy(misspelt); err == nil || !strings.Contains(err.Error(), `"words" is a unit that callers take`) {
			c.errorf("SetPolicy returned %v, so every request with words would get 500", err)
		}
		c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "5 words after the reload")
		c.wantLeft(l, "afterwards", "calls", 7, "words", 40)
	})
}
