package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// slots checks limits in flight: a request has its slot until its response is
// over.
func (s *suite) slots() {
	s.slotsTaken()
	s.slotsOfEnds()
	s.slotsOfStreams()
	s.slotsOfClients()
	if !s.kit.RPC {
		s.slotsOfTimeouts()
		s.slotsTakenOver()
	}
	s.slotsThatAreKept()
	s.slotsHeld()
	s.slotsReleasedOnce()
	s.slotsTogether()
	s.slotsWithOptions()
	s.slotsOnFailure()
	s.slotsInHandlers()
}

// inFlight is a policy of n slots.
func inFlight(name string, n int) core.Policy {
	return core.Policy{Name: name, Limits: []core.Limit{core.InFlight(n)}}
}

// behindStore hides from limiters which store they have. They treat it as one
// that they must wait for.
type behindStore struct{ core.Store }

// eachStore runs the check of a rule on the store, and on one that limiters
// don't know.
func (s *suite) eachStore(rule string, check func(c *trial)) {
	s.rule(rule, check)
	s.rule(rule+" (any store)", func(c *trial) {
		c.store = behindStore{c.store}
		check(c)
	})
}

// all is a key function for which everybody has the key "all".
func (c *trial) all() anyKey {
	return c.kit.Custom(func(Header) (string, error) { return "all", nil })
}

// leftOf returns what the i-th limit of l has left for the key "all".
func (c *trial) leftOf(l *core.Limiter, i int) int64 {
	c.t.Helper()
	res, err := l.Peek(context.Background(), "all")
	if err != nil {
		c.t.Fatal(err)
	}
	return res.Limits()[i].Remaining
}

// wantTaken checks how many slots of l, whose first limit they are, are free
// while requests are at work.
func (c *trial) wantTaken(l *core.Limiter, free int64, when string) {
	c.t.Helper()
	if got := c.leftOf(l, 0); got != free {
		c.errorf("%s: %d slots of %q are free, want %d", when, got, l.Name(), free)
	}
}

// wantFree waits until so many slots of l, whose first limit they are, are
// free.
func (c *trial) wantFree(l *core.Limiter, free int64, when string) {
	c.t.Helper()
	got := c.leftOf(l, 0)
	for end := time.Now().Add(patience); got != free && time.Now().Before(end); got = c.leftOf(l, 0) {
		time.Sleep(time.Millisecond)
	}
	if got != free {
		c.errorf("%s: %d slots of %q are free, want %d", when, got, l.Name(), free)
	}
}

// work is a handler that goes on until it is told to end.
type work struct {
	began, end chan struct{}
	reply      Reply
}

func newWork(reply Reply) *work {
	return &work{make(chan struct{}, 10), make(chan struct{}, 10), reply}
}

func (w *work) handle(context.Context) Reply {
	w.began <- struct{}{}
	<-w.end
	return w.reply
}

// begin sends a request, and waits until its handler is at work. The response
// comes later; its status is 0 if there is none.
func (c *trial) begin(ctx context.Context, app *server, w *work) <-chan response {
	c.t.Helper()
	answered := make(chan response, 1)
	go func() {
		got, err := app.try(ctx, request{})
		if err != nil {
			got.status = 0
		}
		answered <- got
	}()
	if !c.within(w.began) {
		c.t.Fatalf("the rule: %s\nthe handler was not called", c.rule)
	}
	return answered
}

// wantAnswer waits for the response to a request that was begun.
func (c *trial) wantAnswer(answered <-chan response, status int, when string) {
	c.t.Helper()
	select {
	case got := <-answered:
		c.wantStatus(got, status, when)
	case <-time.After(patience):
		c.errorf("%s: there was no response", when)
	}
}

// slotsTaken checks that requests have slots while their handlers run, and that
// denied ones have none.
func (s *suite) slotsTaken() {
	s.eachStore("a slot is taken while the handler runs, and the next request has it at once", func(c *trial) {
		l, w := c.limiter(inFlight("exports", 2)), newWork(Reply{Status: http.StatusOK})
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all()}))
		ctx := context.Background()
		first, second := c.begin(ctx, app, w), c.begin(ctx, app, w)
		c.wantTaken(l, 0, "while two requests are at work")
		denied := app.send(request{})
		c.wantStatus(denied, http.StatusTooManyRequests, "a third request")
		if denied.header.Get("Retry-After") == "" {
			c.errorf("the denial has no Retry-After")
		}
		w.end <- struct{}{}
		w.end <- struct{}{}
		c.wantAnswer(first, http.StatusOK, "the first request")
		c.wantAnswer(second, http.StatusOK, "the second request")
		close(w.end)
		for i := range 20 { // one after the other, so each finds a slot free
			c.wantStatus(app.send(request{}), http.StatusOK, fmt.Sprintf("request %d after the first were answered", i+1))
			next(c, w.began, "the call of the handler")
		}
		c.wantFree(l, 2, "at the end")
	})
	s.rule("a request that another limit of the policy denies takes no slot", func(c *trial) {
		l := c.limiter(core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(3), slow(1)}})
		app := c.use(l, c.all())
		c.wantStatus(app.send(request{}), http.StatusOK, "the first request")
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "the second request")
		c.wantFree(l, 3, "afterwards")
		if left := c.leftOf(l, 1); left != 0 {
			c.errorf("the token of the other limit came back with the slot: %d are left", left)
		}
	})
	s.rule("limiters of the app and of the route each have slots of a request, also two of one policy", func(c *trial) {
		outer, inner, w := c.limiter(inFlight("app", 5)), c.limiter(inFlight("route", 5)), newWork(Reply{Status: http.StatusOK})
		use := func(l *core.Limiter) middleware { return middleware{Limiter: l, Key: c.all()} }
		app := c.app(nil, use(outer))
		app.Routes = routes(w.handle, use(inner), use(outer))
		answered := c.begin(context.Background(), c.serve(app), w)
		c.wantTaken(outer, 3, "while a request is at work that passed it twice")
		c.wantTaken(inner, 4, "while a request is at work")
		w.end <- struct{}{}
		c.wantAnswer(answered, http.StatusOK, "the request")
		c.wantFree(outer, 5, "afterwards")
		c.wantFree(inner, 5, "afterwards")
	})
}

// slotsOfEnds checks the ways in which handlers end.
func (s *suite) slotsOfEnds() {
	for how, end := range map[string]struct {
		handle  func(context.Context) Reply
		streams bool // the framework must stream
	}{
		"returns":                          {handle: answer(http.StatusOK)},
		"writes an error":                  {handle: answer(http.StatusBadGateway)},
		"returns an error":                 {handle: func(context.Context) Reply { return Reply{Status: http.StatusConflict, AsError: true} }},
		"panics":                           {handle: func(context.Context) Reply { panic("handler") }},
		"panics in the middle of a body":   {handle: func(context.Context) Reply { return Reply{Status: http.StatusOK, Aborts: true} }, streams: true},
		"panics after it has flushed":      {handle: func(context.Context) Reply { return Reply{Flushes: true} }, streams: true},
		"answers with an early hint first": {handle: func(context.Context) Reply { return Reply{Status: http.StatusOK, Hints: true} }, streams: true},
	} {
		if end.streams && (!s.kit.Streams || s.kit.RPC) {
			continue
		}
		s.eachStore("the slot of a handler that "+how+" comes back", func(c *trial) {
			var calls atomic.Int64
			l := c.limiter(inFlight("exports", 1))
			app := c.serve(c.app(counted(&calls, end.handle), middleware{Limiter: l, Key: c.all()}))
			for i := range int64(3) {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				if _, err := app.try(ctx, request{}); errors.Is(err, context.DeadlineExceeded) {
					c.errorf("request %d: there was no response", i+1)
				}
				cancel()
				c.wantFree(l, 1, "afterwards")
				if calls.Load() != i+1 {
					c.errorf("request %d did not reach the handler: the slot of the one before was taken", i+1)
				}
			}
		})
	}
}
