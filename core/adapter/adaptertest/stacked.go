package adaptertest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// stacked: two limiters on one way.
func (s *suite[K, O]) stacked() {
	wide := core.Limit{Name: "wide", Capacity: 9, RefillRate: 1, RefillInterval: 11 * time.Second}
	tight := core.Limit{Name: "tight", Capacity: 3, RefillRate: 1, RefillInterval: 13 * time.Second}
	for _, order := range []struct {
		name         string
		outer, inner core.Limit
	}{{"the inner one tighter", wide, tight}, {"the outer one tighter", tight, wide}} {
		for _, style := range []core.HeaderStyle{core.HeadersDefault, core.HeadersDraft6} {
			for _, p := range []place{inUse, inRoute} {
				rule := fmt.Sprintf("of two limiters list fields tell both, single-valued ones the tighter (%s, style %d, %s)",
					order.name, style, p)
				s.rule(rule, func(c *trial[K, O]) {
					outer := Limiter[K, O]{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{order.outer}, Headers: style}), c.kit.Global("all"), nil}
					inner := Limiter[K, O]{c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{order.inner}, Headers: style}), c.kit.Global("all"), nil}
					app := c.app(answer(http.StatusOK), outer, inner)
					if p == inRoute {
						app.Use = app.Use[:1]
						app.Routes = routes(answer(http.StatusOK), inner)
					}
					running := c.serve(app)
					outerModel, innerModel := newModel(order.outer), newModel(order.inner)
					for i := range 5 {
						lists := []decision{{outerModel, 1, outerModel.take(1), c.clock.Now()}}
						single := lists[0]
						if lists[0].allowed {
							in := decision{innerModel, 1, innerModel.take(1), c.clock.Now()}
							if lists = append(lists, in); !in.allowed || innerModel[0].remaining() <= outerModel[0].remaining() {
								single = in
							}
						}
						got := running.send(request{})
						when := fmt.Sprintf("request %d", i+1)
						if !single.allowed {
							c.wantStatus(got, http.StatusTooManyRequests, when)
						} else {
							c.wantRemaining(got, innerModel[0].remaining(), when+": FromContext must tell of the inner limiter")
						}
						if wrong := wrongFields(got.header, style, single, lists...); wrong != "" {
							c.errorf("%s, answered %d:\n%s", when, got.status, wrong)
						}
					}
				})
			}
		}
	}
	s.rule("single-valued fields tell of the denial, although a limiter that allowed has fewer tokens left", func(c *trial[K, O]) {
		outer, inner := newModel(wide), newModel(tight)
		app := c.serve(c.app(answer(http.StatusOK),
			Limiter[K, O]{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{wide}}), c.kit.Global("all"),
				[]O{c.kit.WithCost(func(Header) (int64, error) { return 9, nil })}},
			Limiter[K, O]{c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{tight}}), c.kit.Global("all"),
				[]O{c.kit.WithCost(func(Header) (int64, error) { return 4, nil })}}))
		first := decision{outer, 9, outer.take(9), c.clock.Now()}
		second := decision{inner, 4, inner.take(4), c.clock.Now()}
		got := app.send(request{})
		c.wantStatus(got, http.StatusTooManyRequests, "the outer limiter keeps 0 of 9, the inner denies with 3 left")
		if wrong := wrongFields(got.header, core.HeadersDefault, second, first, second); wrong != "" {
			c.errorf("%s", wrong)
		}
	})
	s.rule("a denial by the outer limiter takes nothing from the inner one", func(c *trial[K, O]) {
		inner := c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{slow(2)}})
		app := c.serve(c.app(answer(http.StatusOK),
			Limiter[K, O]{c.holding(1), c.kit.Global("all"), nil}, Limiter[K, O]{inner, c.kit.Global("all"), nil}))
		for _, status := range []int{200, 429, 429} {
			c.wantStatus(app.send(request{}), status, "through both")
		}
		c.wantRemaining(c.use(inner, c.kit.Global("all")).send(request{}), 0, "through the inner one alone")
	})
	s.rule("when the inner limiter skips, FromContext tells of the outer one", func(c *trial[K, O]) {
		app := c.serve(c.app(answer(http.StatusOK),
			Limiter[K, O]{c.holding(5), c.kit.Global("all"), nil},
			Limiter[K, O]{c.holding(9), c.kit.Global("other"), []O{c.kit.WithSkip(func(Header) bool { return true })}}))
		c.wantRemaining(app.send(request{}), 4, "a request")
	})
}
