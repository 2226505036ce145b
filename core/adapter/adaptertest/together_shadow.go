package adaptertest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// jointShadow checks limiters in shadow mode beside others.
func (s *suite[K, O]) jointShadow() {
	k := s.kit
	s.rule("a limiter in shadow mode denies nothing, sends no fields, and is charged with the others", func(c *trial[K, O]) {
		policy := core.Policy{Name: "trial", Limits: []core.Limit{slow(2)}, Shadow: true}
		one := c.named("one", 4)
		for _, rules := range [][]rule[K]{{{c.limiter(policy), k.Global("all")}, {one, k.Global("all")}}} {
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
	s.rule("a missing key of a limiter in shadow mode refuses nothing, and the others decide", func(c *trial[K, O]) {
		policy := core.Policy{Name: "trial", Limits: []core.Limit{slow(2)}, Shadow: true}
		for _, first := range []bool{true, false} {
			rules := []rule[K]{{c.limiter(policy), k.ByHeader("Nobody")}, {c.named("one", 1), k.Global(fmt.Sprint(first))}}
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
func (s *suite[K, O]) jointShadowUnits() {
	k := s.kit
	s.rule("a unit that only a limiter in shadow mode counts refuses nothing, with its key or without", func(c *trial[K, O]) {
		policy := counting("trial", 9, 50)
		policy.Shadow = true
		app := c.useTogether([]rule[K]{{c.named("one", 2), k.Global("all")}, {c.limiter(policy), k.ByHeader("User")}}, k.WithUnits(words))
		for i, status := range []int{200, 200, 429} {
			fields := header("Words", "7")
			if i == 1 {
				fields = header("Words", "7", "User", "ann")
			}
			c.wantStatus(app.send(request{header: fields}), status, fmt.Sprint("request ", i+1))
		}
	})
	s.rule("a limiter in shadow mode that counts no requests refuses nothing without WithUnits", func(c *trial[K, O]) {
		trying := core.Policy{Name: "trial", Limits: []core.Limit{counting("", 1, 50).Limits[1]}, Shadow: true}
		app := c.useTogether([]rule[K]{{c.limiter(trying), k.Global("all")}, {c.named("one", 1), k.Global("all")}})
		log := logtest.Capture(func() {
			for _, status := range []int{200, 429} {
				c.wantStatus(app.send(request{}), status, "a request")
			}
		})
		if n := strings.Count(log, "shadow mode"); n != 1 {
			c.errorf("the mistake was logged %d times, want once: %s", n, log)
		}
	})
	s.rule("if all limiters are in shadow mode, nothing is refused", func(c *trial[K, O]) {
		var rules []rule[K]
		for _, name := range []string{"one", "two"} {
			rules = append(rules, rule[K]{c.limiter(core.Policy{Name: name, Limits: []core.Limit{slow(1)}, Shadow: true}), k.ByHeader("User")})
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
