package adaptertest

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// burst and quota hold together in the cases about headers. The rates are not whole per second, so
// that rounding shows, and the second name needs escapes.
var (
	burst = core.Limit{Name: "burst", Capacity: 5, RefillRate: 3, RefillInterval: 7 * time.Second}
	quota = core.Limit{Name: `a "quota" \ ;,`, Capacity: 8, RefillRate: 1, RefillInterval: 9 * time.Second}
)

// headers: what each style sends with allowed and denied responses.
func (s *suite[K, O]) headers() {
	for _, style := range []struct {
		rule  string
		style core.HeaderStyle
	}{
		{"by default the legacy and the IETF fields are sent", core.HeadersDefault},
		{"HeadersIETF sends RateLimit and RateLimit-Policy alone", core.HeadersIETF},
		{"HeadersLegacy sends the X-RateLimit fields alone", core.HeadersLegacy},
		{"HeadersDraft6 sends the fields of draft 6 alone", core.HeadersDraft6},
		{"styles can be added up", core.HeadersLegacy | core.HeadersDraft6},
		{"HeadersNone sends Retry-After and Cache-Control of a denial alone", core.HeadersNone},
	} {
		s.rule(style.rule, func(c *trial[K, O]) {
			limits := []core.Limit{burst, quota}
			app := c.use(c.limiter(core.Policy{Name: "test", Limits: limits, Headers: style.style}),
				c.kit.Global("all"), c.kit.WithCost(costHeader))
			policy := newModel(limits...)
			for i, step := range []struct {
				wait    time.Duration
				cost    int64
				allowed bool
			}{
				{0, 1, true}, {0, 0, true}, {1500 * time.Millisecond, 2, true}, {0, 2, true},
				{0, 2, false},                         // burst has less
				{900_001 * time.Microsecond, 1, true}, // and now a fraction of a token
				{0, 1, false},
				{12 * time.Second, 5, false}, // quota has less
				{0, 3, true}, {0, 0, true}, {0, 1, false},
				{0, 6, false}, // more than burst can ever hold
				{0, 9, false}, // more than any can
				{time.Hour, 1, true},
			} {
				c.clock.advance(step.wait)
				policy.refill(step.wait)
				d := decision{policy, step.cost, policy.take(step.cost), c.clock.Now()}
				got := app.send(request{header: header("Cost", itoa(step.cost))})
				when := fmt.Sprintf("step %d, cost %d", i, step.cost)
				if d.allowed != step.allowed {
					c.errorf("%s: the model of this test is wrong", when)
				}
				status := http.StatusOK
				if !d.allowed {
					status = http.StatusTooManyRequests
				}
				c.wantStatus(got, status, when)
				if wrong := wrongFields(got.header, style.style, d, d); wrong != "" {
					c.errorf("%s, answered %d:\n%s", when, got.status, wrong)
				}
			}
		})
	}
}

// costHeader makes a request cost what its field Cost says.
func costHeader(h Header) (int64, error) { return strconv.ParseInt(h("Cost"), 10, 64) }
