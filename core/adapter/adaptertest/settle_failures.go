package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// settleFailures checks settlements that fail.
func (s *suite[K, O]) settleFailures() {
	k := s.kit
	ten := k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 10}, nil })
	s.rule("a failed settlement is logged and counted, and the client sees nothing of it", func(c *trial[K, O]) {
		observer, counted := countingUnsettled()
		l, err := core.NewLimiter(&failingStore{Store: c.store, good: 1}, counting("test", 4, 12), observer)
		if err != nil {
			c.t.Fatal(err)
		}
		settled := giving(3)
		app := c.use(l, k.Global("all"), ten, k.WithSettle(settled.settle))
		log := logtest.Capture(func() {
			got := app.send(request{})
			c.wantStatus(got, http.StatusOK, "the request")
			if strings.Contains(fmt.Sprint(got), secret) {
				c.errorf("the answer shows an internal error: %v", got)
			}
		})
		for _, want := range []string{"could not be settled", "policy=test", "level=ERROR"} {
			if n := strings.Count(log, want); n != 1 {
				c.errorf("%q was logged %d times, want once: %s", want, n, log)
			}
		}
		if n := counted.Load(); n != 1 {
			c.errorf("an observer received %d failed settlements, want 1", n)
		}
	})
	s.rule("a settlement of a unit that no limit counts changes nothing and is logged", func(c *trial[K, O]) {
		l := c.limiter(counting("test", 4, 12))
		settled := settlements{units: func() core.Units { return core.Units{"words": 1, "pages": 1} }}
		log := logtest.Capture(func() {
			c.wantStatus(c.use(l, k.Global("all"), ten, k.WithSettle(settled.settle)).send(request{}), http.StatusOK, "the request")
		})
		if !strings.Contains(log, "pages") {
			c.errorf("the log does not say why: %s", log)
		}
		c.wantLeft(l, "afterwards", "calls", 3, "words", 2)
	})
}

// settlePanics checks a settle function that panics.
func (s *suite[K, O]) settlePanics() {
	k := s.kit
	ten := k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 10}, nil })
	s.rule("a settle function that panics leaves what was charged; it is logged and counted, and the client sees nothing of it", func(c *trial[K, O]) {
		for _, status := range []int{200, 500} {
			observer, counted := countingUnsettled()
			l, err := core.NewLimiter(c.store, counting(fmt.Sprint("test ", status), 4, 12), observer)
			if err != nil {
				c.t.Fatal(err)
			}
			app := c.serve(c.app(func(context.Context) Reply {
				if status == http.StatusInternalServerError {
					panic("handler")
				}
				return Reply{Status: status}
			}, middleware[K, O]{Limiter: l, Key: k.Global("all"), Options: []O{ten, k.WithSettle(func(Header, int) core.Units { panic(secret) })}}))
			log := logtest.Capture(func() {
				got := app.send(request{})
				c.wantStatus(got, status, "the request")
				if strings.Contains(fmt.Sprint(got), secret) {
					c.errorf("the answer shows an internal error: %v", got)
				}
			})
			for _, want := range []string{"could not be settled", secret, "adaptertest/settle_failures.go"} {
				if !strings.Contains(log, want) {
					c.errorf("the log lacks %q: %s", want, log)
				}
			}
			c.wantLeft(l, "afterwards", "calls", 3, "words", 2)
			if n := counted.Load(); n != 1 {
				c.errorf("an observer received %d failed settlements, want 1", n)
			}
		}
	})
}
