package adaptertest

import (
	"fmt"
	"net/http"
)

// invented: methods that clients make up.
func (s *suite[K, O]) invented() {
	s.rule("methods outside RFC 9110 and PATCH share one key, so that nobody can make keys up", func(c *trial[K, O]) {
		const capacity = 5
		app := c.use(c.holding(capacity), c.kit.ByMethod())
		passed := 0
		for i := range 50 {
			method := fmt.Sprintf("M%03d", i)
			if i%5 == 0 {
				method = []string{"get", "Get", "GeT", "PROPFIND", "PURGE", "method", "other", "OTHER", "X", "!"}[i/5]
			}
			got := app.raw(method + " /other HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n")
			if len(limitFields(got.header)) > 0 && got.status != http.StatusTooManyRequests {
				passed++
			}
		}
		if passed > capacity {
			c.errorf("%d invented methods passed a limit of %d", passed, capacity)
		}
		c.wantStatus(app.send(request{}), http.StatusOK, "a GET then")
	})
}
