package adaptertest

import (
	"context"
	"net/http"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// slotsTogether checks several limiters that decide together.
func (s *suite) slotsTogether() {
	s.eachStore("requests of limiters that decide together have slots of all of them, or of none, and all come back", func(c *trial) {
		all, user, rate := c.limiter(inFlight("all", 5)), c.limiter(inFlight("user", 1)), c.limiter(core.Policy{Name: "rate", Limits: []core.Limit{slow(10)}})
		w := newWork(Reply{Status: http.StatusOK})
		app := c.serve(c.app(w.handle, middleware{Together: []rule{{all, c.all()}, {user, c.all()}, {rate, c.all()}}}))
		for i := range int64(3) {
			answered := c.begin(context.Background(), app, w)
			c.wantTaken(all, 4, "while a request is at work")
			c.wantTaken(user, 0, "while a request is at work")
			c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a second request of the user")
			c.wantTaken(all, 4, "after a request that was denied")
			w.end <- struct{}{}
			c.wantAnswer(answered, http.StatusOK, "the request")
			c.wantFree(all, 5, "afterwards")
			c.wantFree(user, 1, "afterwards")
			c.wantTaken(rate, 9-i, "afterwards, of a rate")
		}
	})
}

// slotsWithOptions checks options beside limits in flight.
func (s *suite) slotsWithOptions() {
	k := s.kit
	// three are slots, calls and words.
	three := core.Policy{Name: "exports", Limits: append([]core.Limit{core.InFlight(1)}, counting("", 4, 12).Limits...)}
	for what, test := range map[string]struct {
		option       func() anyOption
		calls, words int64 // that are left
	}{
		"WithSettle":                 {func() anyOption { return k.WithSettle(func(Header, int) core.Units { return core.Units{"words": 3} }) }, 3, 9},
		"WithSettle that panics":     {func() anyOption { return k.WithSettle(func(Header, int) core.Units { panic("settle") }) }, 3, 2},
		"WithRefund of this request": {func() anyOption { return k.WithRefund(func(Header, int) bool { return true }) }, 4, 12},
		"WithRefund of others":       {func() anyOption { return k.WithRefund(func(Header, int) bool { return false }) }, 3, 2},
	} {
		s.eachStore("a slot is taken while the handler runs, and comes back, with "+what, func(c *trial) {
			on := &slotStore{Store: c.store}
			l, w := c.limiterOn(on, three), newWork(Reply{Status: http.StatusOK})
			app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all(), Options: []anyOption{test.option(),
				k.WithUnits(func(Header) (core.Units, error) { return core.Units{core.Requests: 1, "words": 10}, nil })}}))
			answered := c.begin(context.Background(), app, w)
			c.wantTaken(l, 0, "while the handler runs")
			w.end <- struct{}{}
			c.wantAnswer(answered, http.StatusOK, "the request")
			c.wantFree(l, 1, "afterwards")
			for end := time.Now().Add(patience); (c.leftOf(l, 1) != test.calls || c.leftOf(l, 2) != test.words) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if calls, words := c.leftOf(l, 1), c.leftOf(l, 2); calls != test.calls || words != test.words {
				c.errorf("%d calls and %d words are left, want %d and %d", calls, words, test.calls, test.words)
			}
			if ends := on.ends.Load(); ends > 1 {
				c.errorf("the release was sent %d times", ends)
			}
		})
	}
	s.slotsSelected()
}

// slotsSelected checks options that choose whether, and which, slots a request
// has.
func (s *suite) slotsSelected() {
	k := s.kit
	s.rule("a request that WithSkip selects has no slot", func(c *trial) {
		on := &slotStore{Store: c.store}
		l, w := c.limiterOn(on, inFlight("exports", 1)), newWork(Reply{Status: http.StatusOK})
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all(), Options: []anyOption{k.WithSkip(func(Header) bool { return true })}}))
		answered := c.begin(context.Background(), app, w)
		c.wantTaken(l, 1, "while the handler runs")
		w.end <- struct{}{}
		c.wantAnswer(answered, http.StatusOK, "the request")
		if ends := on.ends.Load(); ends != 0 {
			c.errorf("%d releases were sent", ends)
		}
	})
	s.eachStore("a request has as many slots as WithCost says, and all come back", func(c *trial) {
		l, w := c.limiter(inFlight("exports", 5)), newWork(Reply{Status: http.StatusOK})
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all(), Options: []anyOption{k.WithCost(func(Header) (int64, error) { return 3, nil })}}))
		answered := c.begin(context.Background(), app, w)
		c.wantTaken(l, 2, "while the handler runs")
		w.end <- struct{}{}
		c.wantAnswer(answered, http.StatusOK, "the request")
		c.wantFree(l, 5, "afterwards")
	})
	s.eachStore("slots of WithLimits are taken while the handler runs, and come back", func(c *trial) {
		limits := []core.Limit{core.InFlight(3).WithName("plan")}
		l, w := c.limiter(inFlight("exports", 1)), newWork(Reply{Status: http.StatusOK})
		plan, err := l.WithLimits(limits...)
		if err != nil {
			c.t.Fatal(err)
		}
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all(),
			Options: []anyOption{k.WithLimits(func(Header) ([]core.Limit, error) { return limits, nil })}}))
		first, second := c.begin(context.Background(), app, w), c.begin(context.Background(), app, w)
		c.wantTaken(plan, 1, "while two handlers run")
		w.end <- struct{}{}
		w.end <- struct{}{}
		c.wantAnswer(first, http.StatusOK, "the first request")
		c.wantAnswer(second, http.StatusOK, "the second request")
		c.wantFree(plan, 3, "afterwards")
	})
	s.eachStore("shadow mode lets requests pass that find no slot, and they release none", func(c *trial) {
		on := &slotStore{Store: c.store}
		policy := inFlight("exports", 1)
		policy.Shadow = true
		l, w := c.limiterOn(on, policy), newWork(Reply{Status: http.StatusOK})
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all()}))
		enforced := c.limiter(inFlight("exports", 1))
		first, second := c.begin(context.Background(), app, w), c.begin(context.Background(), app, w)
		c.wantTaken(enforced, 0, "while two handlers run")
		w.end <- struct{}{}
		w.end <- struct{}{}
		c.wantAnswer(first, http.StatusOK, "the first request")
		c.wantAnswer(second, http.StatusOK, "the second request")
		c.wantFree(enforced, 1, "afterwards")
		if ends := on.ends.Load(); ends != 1 {
			c.errorf("%d releases were sent, want one", ends)
		}
	})
}

// slotsInHandlers checks slots that handlers take themselves.
func (s *suite) slotsInHandlers() {
	s.eachStore("the slot of Allow in a handler is taken until the handler releases it", func(c *trial) {
		l, w := c.limiter(inFlight("exports", 1)), newWork(Reply{Status: http.StatusOK})
		taken := make(chan core.Result, 10)
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Handler: &handler{keys: constant("all"), then: func(res core.Result) { taken <- res }}}))
		for range 2 {
			answered := c.begin(context.Background(), app, w)
			c.wantTaken(l, 0, "while the handler runs")
			c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a request while the handler runs")
			w.end <- struct{}{}
			c.wantAnswer(answered, http.StatusOK, "the request")
			c.wantTaken(l, 0, "after a handler that has released nothing")
			res := next(c, taken, "the Result of Allow")
			if err := res.Release(context.Background()); err != nil {
				c.errorf("Release: %v", err)
			}
			c.wantTaken(l, 1, "after the handler has released its slot")
		}
	})
}
