package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// settlements records the calls of a settle function.
type settlements struct {
	units func() core.Units // what the function returns; nil means nil

	mu    sync.Mutex
	seen  []int         // the statuses
	users []string      // the values of the field User
	each  chan struct{} // receives a value after each call, if it is not nil
}

func (s *settlements) settle(h Header, status int) core.Units {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.users = append(s.seen, status), append(s.users, strings.Clone(h("User")))
	if s.each != nil {
		defer func() { s.each <- struct{}{} }()
	}
	if s.units == nil {
		return nil
	}
	return s.units()
}

func (s *settlements) statuses() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// giving returns settlements of a number of words.
func giving(words int64) *settlements {
	return &settlements{units: func() core.Units { return core.Units{"words": words} }}
}

// wantSettled checks the statuses that a settle function was called with.
func (c *trial) wantSettled(s *settlements, statuses ...int) {
	c.t.Helper()
	for i, status := range statuses {
		statuses[i] = c.kit.known(status)
	}
	if seen := s.statuses(); !slices.Equal(seen, statuses) {
		c.errorf("the settle function was called with %v, want %v", seen, statuses)
	}
}

// settle checks WithSettle.
func (s *suite) settle() {
	s.settleAmounts()
	s.settleStatus()
	s.settleOnlyCharged()
	s.settleFailures()
	s.settlePanics()
}

// settleAmounts checks what a settlement takes and gives back.
func (s *suite) settleAmounts() {
	k := s.kit
	ten := k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 10}, nil })
	for _, test := range []struct {
		rule         string
		units        core.Units
		calls, words int
		next         int // status of the next request, of 1 request and 10 words
	}{
		{"less than was charged comes back", core.Units{"words": 3}, 3, 9, 429},
		{"nothing at all comes back as a whole", core.Units{"words": 0, core.Requests: 0}, 4, 12, 200},
		{"what was charged changes nothing", core.Units{"words": 10}, 3, 2, 429},
		{"more than was charged is taken", core.Units{"words": 11, core.Requests: 2}, 2, 1, 429},
		{"nil leaves what was charged", nil, 3, 2, 429},
		{"no units leave what was charged", core.Units{}, 3, 2, 429},
		{"units that are left out keep what was charged", core.Units{core.Requests: 4}, 0, 2, 429},
	} {
		s.rule("WithSettle: "+test.rule, func(c *trial) {
			settled := settlements{units: func() core.Units { return test.units }}
			l := c.limiter(counting("test", 4, 12))
			app := c.use(l, k.Global("all"), ten, k.WithSettle(settled.settle))
			c.wantStatus(app.send(request{}), http.StatusOK, "the request")
			c.wantSettled(&settled, 200)
			c.wantLeft(l, "afterwards", "calls", test.calls, "words", test.words)
			c.wantStatus(c.use(l, k.Global("all"), ten).send(request{}), test.next, "the next request")
		})
	}
	s.rule("WithSettle: what is not there becomes a debt, and later requests are denied", func(c *trial) {
		l := c.limiter(counting("test", 4, 12))
		one := k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 1}, nil })
		c.wantStatus(c.use(l, k.Global("all"), ten, k.WithSettle(giving(20).settle)).send(request{}), http.StatusOK, "10 words that were 20, of 12")
		c.wantStatus(c.use(l, k.Global("all"), one).send(request{}), http.StatusTooManyRequests, "one word more")
	})
	s.rule("WithSettle: requests are settled without WithUnits too", func(c *trial) {
		settled := settlements{units: func() core.Units { return core.Units{core.Requests: 3} }}
		l := c.holding(5)
		c.wantStatus(c.use(l, k.Global("all"), k.WithSettle(settled.settle)).send(request{}), http.StatusOK, "the request")
		c.wantRemaining(c.use(l, k.Global("all")).send(request{}), 1, "the next request, of 5 less 3")
	})
}

// settleStatus checks the status that the settle function gets, and that it is
// called once.
func (s *suite) settleStatus() {
	k := s.kit
	ten := k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 10}, nil })
	for _, reply := range []Reply{
		{Status: 200}, {Status: 201}, {Status: 401}, {Status: 401, AsError: true}, {Status: 404, AsError: true},
		{Status: 500}, {Status: 503, AsError: true},
	} {
		rule := fmt.Sprintf("the settle function is called once, with the status that the client gets (%d, as error: %v)", reply.Status, reply.AsError)
		s.rule(rule, func(c *trial) {
			settled := giving(4)
			l := c.limiter(counting("test", 4, 12))
			app := c.serve(c.app(func(context.Context) Reply { return reply },
				middleware{Limiter: l, Key: k.Global("all"), Options: []anyOption{ten, k.WithSettle(settled.settle)}}))
			c.wantStatus(app.send(request{header: header("User", "ann")}), reply.Status, "the request")
			c.wantSettled(settled, reply.Status)
			if !slices.Equal(settled.users, []string{"ann"}) {
				c.errorf("the settle function saw the users %q, want that of the request", settled.users)
			}
			c.wantLeft(l, "afterwards", "calls", 3, "words", 8)
		})
	}
	s.rule("a request whose handler panics is settled with 500", func(c *trial) {
		settled := giving(0)
		l := c.limiter(counting("test", 4, 12))
		app := c.serve(c.app(func(context.Context) Reply { panic("handler") },
			middleware{Limiter: l, Key: k.Global("all"), Options: []anyOption{ten, k.WithSettle(settled.settle)}}))
		for range 2 {
			c.wantStatus(app.send(request{}), http.StatusInternalServerError, "the request")
		}
		c.wantSettled(settled, 500, 500)
		c.wantLeft(l, "afterwards", "calls", 2, "words", 12)
	})
	for _, reply := range []Reply{{Status: 201, Aborts: true}, {Status: 502, Aborts: true}, {Status: 200, Flushes: true}} {
		if !k.Streams || k.RPC {
			break
		}
		rule := fmt.Sprintf("a request is settled with the status that was sent, even if the handler panics later (%d, flushed without a status: %v)", reply.Status, reply.Flushes)
		s.rule(rule, func(c *trial) {
			settled := giving(0)
			settled.each = make(chan struct{}, 9)
			app := c.serve(c.app(func(context.Context) Reply { return reply },
				middleware{Limiter: c.limiter(counting("test", 4, 12)), Key: k.Global("all"), Options: []anyOption{ten, k.WithSettle(settled.settle)}}))
			_, _ = app.try(context.Background(), request{})
			if !c.within(settled.each) {
				c.errorf("the settle function was not called")
			}
			c.wantSettled(settled, reply.Status)
		})
	}
}

// settleOnlyCharged checks which requests are settled.
func (s *suite) settleOnlyCharged() {
	k := s.kit
	ten := k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 10}, nil })
	s.rule("the settle function is not called for a request that was denied, skipped or not decided", func(c *trial) {
		settled := giving(10)
		app := c.use(c.limiter(counting("test", 4, 12)), k.ByHeader("User"), ten, k.WithSettle(settled.settle),
			k.WithSkip(func(h Header) bool { return h("Skip") != "" }))
		for _, step := range []struct {
			field  string
			status int
		}{{"User", 200}, {"User", 429}, {"Skip", 200}, {"Other", 400}} {
			c.wantStatus(app.send(request{header: header(step.field, "ann")}), step.status, step.field)
		}
		c.wantSettled(settled, 200)
	})
	s.rule("the settle function of an outer limiter gets the status of an inner limiter's refusal", func(c *trial) {
		settled := giving(0)
		outer := c.limiter(counting("outer", 4, 12))
		app := c.serve(c.app(answer(http.StatusOK),
			middleware{Limiter: outer, Key: k.Global("all"), Options: []anyOption{ten, k.WithSettle(settled.settle)}},
			middleware{Limiter: c.holding(1), Key: k.Global("all")}))
		c.wantStatus(app.send(request{}), http.StatusOK, "the first request")
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "refused by the inner limiter")
		c.wantSettled(settled, 200, 429)
		c.wantLeft(outer, "afterwards", "calls", 2, "words", 12)
	})
	s.rule("in shadow mode the settle function is called, and a request that would be denied gives nothing back", func(c *trial) {
		settled := giving(0)
		policy := counting("test", 4, 12)
		policy.Shadow = true
		app := c.use(c.limiter(policy), k.Global("all"), k.WithUnits(func(Header) (core.Units, error) {
			return core.Units{core.Requests: 0, "words": 13}, nil
		}), k.WithSettle(settled.settle))
		l := c.limiter(counting("test", 4, 12))
		c.wantStatus(c.use(l, k.Global("all"), ten).send(request{}), http.StatusOK, "10 of 12 words")
		c.wantStatus(app.send(request{}), http.StatusOK, "13 of 2 words, not enforced")
		c.wantSettled(settled, 200)
		c.wantLeft(l, "afterwards", "calls", 3, "words", 2)
	})
	s.rule("WithSettle and WithRefund can't be used together: New panics", func(c *trial) {
		var reported statuses
		c.wantPanic(middleware{Limiter: c.holding(1), Key: k.Global("all"), Options: []anyOption{k.WithSettle(giving(1).settle), k.WithRefund(reported.refunding)}},
			"WithSettle", "WithRefund")
	})
}

// failingStore fails after some calls.
type failingStore struct {
	core.Store

	good  int64 // calls that it answers
	calls atomic.Int64
}

func (s *failingStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.calls.Add(1) > s.good {
		return store.Answer{}, errSecret
	}
	return s.Store.Do(ctx, r)
}

// countingUnsettled returns an observer that counts settlements that failed.
func countingUnsettled() (core.LimiterOption, *atomic.Int64) {
	counted := &atomic.Int64{}
	return core.WithObserver(func(_ context.Context, o core.Observation) {
		if o.Outcome == core.OutcomeUnsettled {
			counted.Add(1)
		}
	}), counted
}

// settleFailures checks settlements that fail.
func (s *suite) settleFailures() {
	k := s.kit
	ten := k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 10}, nil })
	s.rule("a failed settlement is logged and counted, and the client sees nothing of it", func(c *trial) {
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
	s.rule("a settlement of a unit that no limit counts changes nothing and is logged", func(c *trial) {
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
func (s *suite) settlePanics() {
	k := s.kit
	ten := k.WithUnits(func(Header) (core.Units, error) { return core.Units{"words": 10}, nil })
	s.rule("a settle function that panics leaves what was charged; it is logged and counted, and the client sees nothing of it", func(c *trial) {
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
			}, middleware{Limiter: l, Key: k.Global("all"), Options: []anyOption{ten, k.WithSettle(func(Header, int) core.Units { panic(secret) })}}))
			log := logtest.Capture(func() {
				got := app.send(request{})
				c.wantStatus(got, status, "the request")
				if strings.Contains(fmt.Sprint(got), secret) {
					c.errorf("the answer shows an internal error: %v", got)
				}
			})
			for _, want := range []string{"could not be settled", secret, "adaptertest/settle.go"} {
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
