package adaptertest

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
)

// concurrent: many at once.
func (s *suite[K, O]) concurrent() {
	s.rule("of many concurrent requests with one key exactly the capacity passes", func(c *trial[K, O]) {
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
			c.errorf("%d of %d clients with keys of their own passed meanwhile, want all", alone.Load(), clients)
		}
	})
}
