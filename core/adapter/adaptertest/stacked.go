package adaptertest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// stacked checks two limiters, one behind the other.
func (s *suite) stacked() {
	s.stackedFields()
	s.stackedDecisions()
}

// stackedFields checks the header fields of stacked limiters.
func (s *suite) stackedFields() {
	wide := core.Limit{Name: "wide", Capacity: 9, RefillRate: 1, RefillInterval: 11 * time.Second}
	tight := core.Limit{Name: "tight", Capacity: 3, RefillRate: 1, RefillInterval: 13 * time.Second}
	for _, styles := range []struct{ outer, inner core.HeaderStyle }{
		{core.HeadersDefault, core.HeadersDefault},
		{core.HeadersDraft6, core.HeadersDraft6},
		{core.HeadersDraft6, core.HeadersDraft8},
		{core.HeadersDraft8, core.HeadersDraft6},
		{core.HeadersDefault, core.HeadersLegacy | core.HeadersDraft6},
		{core.HeadersLegacy | core.HeadersDraft6, core.HeadersDefault},
	} {
		for _, order := range []struct {
			name         string
			outer, inner core.Limit
		}{{"the inner is tighter", wide, tight}, {"the outer is tighter", tight, wide}} {
			for _, p := range []place{inUse, inRoute} {
				s.rule(fmt.Sprintf("list fields hold both limiters, single-valued fields the tighter one, all in the outer's draft (%s, %v and %v, %s)",
					order.name, styles.outer, styles.inner, p), func(c *trial) {
					outer := middleware{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{order.outer}, Headers: styles.outer}), c.kit.Global("all"), nil, nil, nil, nil}
					inner := middleware{c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{order.inner}, Headers: styles.inner}), c.kit.Global("all"), nil, nil, nil, nil}
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
							c.wantRemaining(got, innerModel[0].remaining(), when+": FromContext must return the inner limiter's decision")
						}
						if wrong := c.wrongFields(got.header, styles.outer, single, lists...); wrong != "" {
							c.errorf("%s, answered %d:\n%s", when, got.status, wrong)
						}
					}
				})
			}
		}
	}
}

// stackedDecisions checks the decisions of stacked limiters.
func (s *suite) stackedDecisions() {
	wide := core.Limit{Name: "wide", Capacity: 9, RefillRate: 1, RefillInterval: 11 * time.Second}
	tight := core.Limit{Name: "tight", Capacity: 3, RefillRate: 1, RefillInterval: 13 * time.Second}
	s.rule("single-valued fields hold the denial, even if a limiter that allowed has fewer tokens left", func(c *trial) {
		outer, inner := newModel(wide), newModel(tight)
		app := c.serve(c.app(answer(http.StatusOK),
			middleware{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{wide}}), c.kit.Global("all"),
				[]anyOption{c.kit.WithCost(func(Header) (int64, error) { return 9, nil })}, nil, nil, nil},
			middleware{c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{tight}}), c.kit.Global("all"),
				[]anyOption{c.kit.WithCost(func(Header) (int64, error) { return 4, nil })}, nil, nil, nil}))
		first := decision{outer, 9, outer.take(9), c.clock.Now()}
		second := decision{inner, 4, inner.take(4), c.clock.Now()}
		got := app.send(request{})
		c.wantStatus(got, http.StatusTooManyRequests, "the outer limiter has 0 of 9 left, the inner one denies with 3 left")
		if wrong := c.wrongFields(got.header, core.HeadersDefault, second, first, second); wrong != "" {
			c.errorf("%s", wrong)
		}
	})
	s.rule("a denial by the outer limiter takes no tokens from the inner one", func(c *trial) {
		inner := c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{slow(2)}})
		app := c.serve(c.app(answer(http.StatusOK),
			middleware{c.holding(1), c.kit.Global("all"), nil, nil, nil, nil}, middleware{inner, c.kit.Global("all"), nil, nil, nil, nil}))
		for _, status := range []int{200, 429, 429} {
			c.wantStatus(app.send(request{}), status, "through both")
		}
		c.wantRemaining(c.use(inner, c.kit.Global("all")).send(request{}), 0, "through the inner one alone")
	})
	s.rule("if the inner limiter skips a request, FromContext returns the outer one's decision", func(c *trial) {
		app := c.serve(c.app(answer(http.StatusOK),
			middleware{c.holding(5), c.kit.Global("all"), nil, nil, nil, nil},
			middleware{c.holding(9), c.kit.Global("other"), []anyOption{c.kit.WithSkip(func(Header) bool { return true })}, nil, nil, nil}))
		c.wantRemaining(app.send(request{}), 4, "a request")
	})
}
