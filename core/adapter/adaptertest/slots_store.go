package adaptertest

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	actions "github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// slotStore counts what is sent for slots.
type slotStore struct {
	core.Store

	ends  atomic.Int64  // how many slots were to come back
	held  chan struct{} // has a value when slots were held for longer
	block chan struct{} // releases wait until it is closed; nil: they don't
	fail  bool          // releases fail
}

func (s *slotStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	switch {
	case r.Action == actions.Charge && r.Ends != nil && !r.Moves():
		s.ends.Add(1)
		if s.block != nil {
			<-s.block
		}
		if s.fail {
			return store.Answer{}, errSecret
		}
	case r.Action == actions.Extend: // Hold
		defer func() {
			select {
			case s.held <- struct{}{}:
			default:
			}
		}()
	}
	return s.Store.Do(ctx, r)
}

// slotsHeld checks responses that take longer than MaxHold.
func (s *suite) slotsHeld() {
	const maxHold = 90 * time.Millisecond
	s.rule("a slot is taken during the whole response, which takes many times MaxHold, without the handler's doing", func(c *trial) {
		on := &slotStore{Store: c.store, held: make(chan struct{}, 1)}
		l, w := c.limiterOn(on, core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1).WithMaxHold(maxHold)}}), newWork(Reply{Status: http.StatusOK})
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all()}))
		answered := c.begin(context.Background(), app, w)
		for range 20 { // the clock moves only when the slot was held for longer
			if !c.within(on.held) {
				c.errorf("the slot was not held for longer")
				return
			}
			c.clock.advance(maxHold / 5)
			c.wantTaken(l, 0, "while the handler is at work")
		}
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a request while the handler is at work")
		w.end <- struct{}{}
		c.wantAnswer(answered, http.StatusOK, "the request")
		c.wantFree(l, 1, "after the response")
		if ends := on.ends.Load(); ends != 1 {
			c.errorf("the release was sent %d times, want once", ends)
		}
	})
}

// slotsReleasedOnce checks what releases cost, and that no response waits for
// them.
func (s *suite) slotsReleasedOnce() {
	s.rule("a response does not wait for a store that does not answer the release, which is sent once", func(c *trial) {
		on := &slotStore{Store: c.store, block: make(chan struct{})}
		l := c.limiterOn(on, inFlight("exports", 2))
		app := c.use(l, c.all())
		c.wantStatus(app.send(request{}), http.StatusOK, "the request")
		close(on.block)
		c.wantFree(l, 2, "when the store answers again")
		if ends := on.ends.Load(); ends != 1 {
			c.errorf("the release was sent %d times, want once", ends)
		}
	})
	s.rule("a release that fails is not sent again", func(c *trial) {
		on := &slotStore{Store: c.store, fail: true}
		app := c.use(c.limiterOn(on, inFlight("exports", 5)), c.all())
		for i := range int64(5) { // each waits until the release before it is over
			if ends := on.ends.Load(); ends > i {
				c.errorf("before request %d releases were sent %d times", i+1, ends)
			}
			c.wantStatus(app.send(request{}), http.StatusOK, "a request")
		}
		c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a request after all slots were lost")
		if ends := on.ends.Load(); ends != 5 {
			c.errorf("releases of 5 requests were sent %d times", ends)
		}
	})
	s.rule("a slot that the handler has released is free while it goes on, and not released again", func(c *trial) {
		on := &slotStore{Store: c.store}
		l, w := c.limiterOn(on, inFlight("exports", 1)), newWork(Reply{Status: http.StatusOK, Decided: nil})
		released := make(chan error, 10)
		goOn := make(chan struct{}, 10)
		w.reply.Decided = func(res core.Result, _ bool) {
			released <- res.Release(context.Background())
			<-goOn
		}
		app := c.serve(c.app(w.handle, middleware{Limiter: l, Key: c.all()}))
		answered := c.begin(context.Background(), app, w)
		w.end <- struct{}{}
		if err := next(c, released, "the end of Release"); err != nil {
			c.errorf("Release: %v", err)
		}
		c.wantTaken(l, 1, "after the handler has released its slot")
		second := c.begin(context.Background(), app, w) // has the slot now
		goOn <- struct{}{}
		c.wantAnswer(answered, http.StatusOK, "the request")
		c.wantTaken(l, 0, "after the end of a request whose slot another one has")
		w.end <- struct{}{}
		next(c, released, "the end of the second Release")
		goOn <- struct{}{}
		c.wantAnswer(second, http.StatusOK, "the second request")
		if ends := on.ends.Load(); ends != 2 {
			c.errorf("the slots of two requests were released %d times", ends)
		}
	})
}

// slotsOnFailure checks requests that a store could not decide.
func (s *suite) slotsOnFailure() {
	s.rule("a request that passes because the store failed releases nothing", func(c *trial) {
		on := &slotStore{Store: brokenStore{}}
		policy := inFlight("exports", 1)
		policy.OnFailure = core.FailOpen
		app := c.use(c.limiterOn(on, policy), c.all())
		for range 3 {
			c.wantStatus(app.send(request{}), http.StatusOK, "a request")
		}
		if ends := on.ends.Load(); ends != 0 {
			c.errorf("%d releases were sent", ends)
		}
	})
	s.rule("while the store fails, slots are counted in the process", func(c *trial) {
		on := &slotStore{Store: brokenStore{}}
		w := newWork(Reply{Status: http.StatusOK})
		app := c.serve(c.app(w.handle, middleware{Limiter: c.limiterOn(on, inFlight("exports", 1)), Key: c.all()}))
		for range 3 {
			answered := c.begin(context.Background(), app, w)
			c.wantStatus(app.send(request{}), http.StatusTooManyRequests, "a request while another one is at work")
			w.end <- struct{}{}
			c.wantAnswer(answered, http.StatusOK, "the request")
		}
		if ends := on.ends.Load(); ends != 0 {
			c.errorf("%d releases were sent to a store that has no slots of these requests", ends)
		}
	})
	s.rule("a request whose context ended before it was decided has no slot", func(c *trial) {
		l := c.limiter(inFlight("exports", 1))
		app := c.app(answer(http.StatusOK), middleware{Limiter: l, Key: c.all()})
		app.Context = func(ctx context.Context) context.Context {
			ctx, end := context.WithCancelCause(ctx)
			end(errors.New("gone"))
			return ctx
		}
		c.wantStatus(c.serve(app).send(request{}), http.StatusServiceUnavailable, "the request")
		c.wantFree(l, 1, "afterwards")
	})
}

// wantDropped waits until the slot of a request is free that the framework has
// dropped: nobody refers to the request any more, so the garbage collector
// finds it.
func (c *trial) wantDropped(l *core.Limiter) {
	c.t.Helper()
	for end := time.Now().Add(patience); c.leftOf(l, 0) == 0; {
		if time.Now().After(end) {
			c.errorf("the slot of a request that the framework dropped never came back")
			return
		}
		c.clock.advance(time.Millisecond)
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}
