package adaptertest

import (
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// content: CostByContentLength.
func (s *suite[K, O]) content() {
	s.rule("CostByContentLength takes a token for each part of a body that was begun, and at least one", func(c *trial[K, O]) {
		app := c.use(c.holding(100), c.kit.Global("all"), c.kit.CostByContentLength(10))
		left := int64(100)
		for _, size := range []int{0, 1, 9, 10, 11, 99, 100, 101} {
			left -= max(1, int64(size+9)/10)
			c.wantRemaining(app.send(request{method: http.MethodPost, body: strings.Repeat("x", size)}), left, itoa(int64(size))+" bytes")
		}
		c.wantRemaining(app.send(request{}), left-1, "a GET")
	})
	s.rule("a body of unknown length costs the whole Capacity, of the smallest limit in force", func(c *trial[K, O]) {
		chunked := request{method: http.MethodPost, body: "x", chunked: true}
		app := c.use(c.holding(7), c.kit.Global("all"), c.kit.CostByContentLength(1000))
		c.wantRemaining(app.send(chunked), 0, "from a full bucket")
		app = c.use(c.limiter(core.Policy{Name: "two", Limits: []core.Limit{slow(9).WithName("wide"), slow(7)}}),
			c.kit.Global("all"), c.kit.CostByContentLength(1000))
		c.wantStatus(app.send(chunked), http.StatusOK, "a full bucket of 7 and one of 9")
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "the one of 7 is empty then")
		app = c.use(c.limiter(core.Policy{Name: "used", Limits: []core.Limit{slow(7)}}), c.kit.Global("all"), c.kit.CostByContentLength(1000))
		c.wantRemaining(app.send(request{}), 6, "a request without a body")
		c.wantStatus(app.send(chunked), http.StatusTooManyRequests, "a bucket that isn't full")
	})
	s.rule("a body of unknown length costs what the adapter was told", func(c *trial[K, O]) {
		app := c.use(c.holding(10), c.kit.Global("all"), c.kit.CostByContentLength(1000, 4))
		c.wantRemaining(app.send(request{method: http.MethodPost, body: "x", chunked: true}), 6, "a chunked body")
		c.wantRemaining(app.send(request{method: http.MethodPost, body: "x"}), 5, "a body of 1 byte")
	})
}

// shadow: Policy.Shadow.
func (s *suite[K, O]) shadow() {
	s.rule("a policy in shadow mode answers as if there were no limiter, and charges", func(c *trial[K, O]) {
		policy := policyOf(2)
		policy.Shadow = true
		app := c.use(c.limiter(policy), c.kit.ByHeader("User"))
		for i := range 4 {
			got := app.send(request{header: header("User", "ann")})
			c.wantStatus(got, http.StatusOK, itoa(int64(i))+" of a bucket of 2")
			if len(limitFields(got.header)) > 0 {
				c.errorf("header fields of a limit that isn't enforced: %v", got.header)
			}
		}
		got := app.send(request{})
		c.wantStatus(got, http.StatusOK, "without a key")
		c.wantStatus(c.use(c.holding(2), c.kit.ByHeader("User")).send(request{header: header("User", "ann")}), http.StatusTooManyRequests,
			"the same bucket, once the limit is enforced")
	})
	s.rule("a policy in shadow mode stops nobody when the store is away", func(c *trial[K, O]) {
		policy := core.Policy{Name: "test", Limits: []core.Limit{slow(1)}, OnFailure: core.FailClosed, Shadow: true}
		c.wantStatus(c.use(c.limiterOn(brokenStore{}, policy), c.kit.Global("all")).send(request{}), http.StatusOK, "a request")
	})
}
