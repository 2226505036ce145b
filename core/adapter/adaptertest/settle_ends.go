package adaptertest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// settleAfterClient checks that a request is settled although its client has
// gone.
func (s *suite) settleAfterClient() {
	s.rule("a request is settled although the client left while the handler ran", func(c *trial) {
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		gone := make(chan struct{})
		settled := giving(3)
		settled.each = make(chan struct{}, 9)
		store := announcedStore{c.store, make(chan struct{}, 10)}
		l := c.limiterOn(store, counting("test", 4, 12))
		app := c.serve(c.app(func(ctx context.Context) Reply {
			leave()
			if c.kit.ContextEnds {
				<-ctx.Done()
			} else {
				<-gone
			}
			return Reply{Status: http.StatusAccepted}
		}, middleware{Limiter: l, Key: c.kit.Global("all"), Options: []anyOption{c.kit.WithUnits(words), c.kit.WithSettle(settled.settle)}}))
		if got, err := app.try(ctx, request{header: header("Words", "10")}); err == nil {
			c.errorf("the client was answered %d although it had left", got.status)
		}
		close(gone)
		if !c.takesAndSettles(store) {
			return
		}
		c.wantSettled(settled, http.StatusAccepted)
		c.wantLeft(c.limiter(counting("test", 4, 12)), "afterwards", "calls", 3, "words", 9)
	})
}

// takesAndSettles waits until words were taken from a store, and settled.
func (c *trial) takesAndSettles(store announcedStore) bool {
	for _, action := range []string{"took", "settled"} {
		if !c.within(store.done) {
			c.errorf("the limiter never %s the words", action)
			return false
		}
	}
	return true
}

// settleUndecided checks that a request is settled although its context ended
// before the limiter knew the decision.
func (s *suite) settleUndecided() {
	for _, rules := range []int{1, 2} {
		s.rule(fmt.Sprintf("a request whose context ends while the store decides is settled (limiters: %d)", rules), func(c *trial) {
			var cancel atomic.Pointer[context.CancelFunc] // of the newest request
			end := func() { (*cancel.Load())() }
			settled := giving(3)
			var list []rule
			for i := range rules {
				policy := counting(fmt.Sprint("test", i), 4, 12)
				list = append(list, rule{c.limiterOn(leavingStore{c.store, end}, policy), c.kit.Global("all")})
			}
			app := c.app(answer(http.StatusAccepted), middleware{Together: list,
				Options: []anyOption{c.kit.WithUnits(words), c.kit.WithSettle(settled.settle)}})
			requests := 0
			app.Context = func(ctx context.Context) context.Context {
				ctx, its := context.WithCancel(ctx)
				cancel.Store(&its)
				if requests++; requests == 2 {
					its()
				}
				return ctx
			}
			running := c.serve(app)
			c.wantStatus(running.send(request{header: header("Words", "10")}), http.StatusAccepted, "the request")
			c.wantSettled(settled, http.StatusAccepted)
			for i := range rules {
				c.wantLeft(c.limiter(counting(fmt.Sprint("test", i), 4, 12)), "afterwards", "calls", 3, "words", 9)
			}
			c.wantStatus(running.send(request{header: header("Words", "1")}), http.StatusServiceUnavailable, "a request whose context has ended before")
			c.wantSettled(settled, http.StatusAccepted)
			c.wantLeft(c.limiter(counting("test0", 4, 12)), "at the end", "calls", 3, "words", 9)
		})
	}
}

// leavingStore ends the caller's context when it has decided. It answers with
// the context's error then, as a store does whose caller left.
type leavingStore struct {
	core.Store
	end context.CancelFunc
}

func (s leavingStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.Store.Do(context.WithoutCancel(ctx), r)
	s.end()
	if ctx.Err() != nil {
		return store.Answer{}, ctx.Err()
	}
	return a, err
}

// stream checks WithSettle for responses that are streamed.
func (s *suite) stream() {
	s.streamOver()
	s.streamLeft()
	s.streamCharges()
}

// streamOver checks that a stream is settled when it is over.
func (s *suite) streamOver() {
	k := s.kit
	// streaming serves an app whose handler streams, and settles what the
	// stream has written to produced.
	streaming := func(c *trial, l *core.Limiter, produced *atomic.Int64, stream func(w io.Writer, flush func() error)) (*server, *settlements) {
		settled := &settlements{units: func() core.Units { return core.Units{"words": produced.Load()} }, each: make(chan struct{}, 9)}
		return c.serve(c.app(func(context.Context) Reply { return Reply{Status: http.StatusAccepted, Stream: stream} },
			middleware{Limiter: l, Key: k.Global("all"), Options: []anyOption{k.WithUnits(words), k.WithSettle(settled.settle)}})), settled
	}
	s.rule("a streamed response is settled when it is over: what its stream writes last is seen", func(c *trial) {
		store := announcedStore{c.store, make(chan struct{}, 10)}
		var produced atomic.Int64
		app, settled := streaming(c, c.limiterOn(store, counting("test", 4, 12)), &produced, func(w io.Writer, flush func() error) {
			for i := range 7 {
				_, _ = fmt.Fprintln(w, i)
				_ = flush()
			}
			produced.Store(7)
		})
		for i := range 2 {
			produced.Store(0)
			got := app.send(request{header: header("Words", "5", "User", "ann")})
			if got.status != c.kit.known(http.StatusAccepted) || got.body != "0\n1\n2\n3\n4\n5\n6\n" {
				c.errorf("answered %d %q", got.status, got.body)
			}
			for _, action := range []string{"took", "settled"} {
				if !c.within(store.done) {
					c.errorf("request %d: the limiter never %s the words", i+1, action)
					return
				}
			}
			if i == 0 {
				c.wantLeft(c.limiter(counting("test", 4, 12)), "after 7 words that were charged as 5", "calls", 3, "words", 5)
			}
		}
		c.wantSettled(settled, http.StatusAccepted, http.StatusAccepted)
		settled.mu.Lock()
		defer settled.mu.Unlock()
		if !slices.Equal(settled.users, []string{"ann", "ann"}) {
			c.errorf("the settle function saw the users %q, want that of the request", settled.users)
		}
	})
}

// streamLeft checks a stream whose client leaves.
func (s *suite) streamLeft() {
	k := s.kit
	// streaming serves an app whose handler streams, and settles what the
	// stream has written to produced.
	streaming := func(c *trial, l *core.Limiter, produced *atomic.Int64, stream func(w io.Writer, flush func() error)) (*server, *settlements) {
		settled := &settlements{units: func() core.Units { return core.Units{"words": produced.Load()} }, each: make(chan struct{}, 9)}
		return c.serve(c.app(func(context.Context) Reply { return Reply{Status: http.StatusAccepted, Stream: stream} },
			middleware{Limiter: l, Key: k.Global("all"), Options: []anyOption{k.WithUnits(words), k.WithSettle(settled.settle)}})), settled
	}
	s.rule("a streamed response is settled once although the client left in the middle", func(c *trial) {
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		var produced atomic.Int64
		store := announcedStore{c.store, make(chan struct{}, 10)}
		ended := make(chan struct{})
		app, settled := streaming(c, c.limiterOn(store, counting("test", 4, 300)), &produced, func(w io.Writer, flush func() error) {
			defer close(ended)
			for n := int64(1); ; n++ { // until the client has gone
				if _, err := fmt.Fprintln(w, n, strings.Repeat("x", 10_000)); err != nil {
					return
				}
				if err := flush(); err != nil {
					return
				}
				if n == 3 {
					produced.Store(n)
					leave()
				}
			}
		})
		if got, err := app.try(ctx, request{header: header("Words", "250")}); err == nil {
			c.errorf("the premise: the client leaves, but it was answered %d", got.status)
		}
		if !c.within(ended) {
			c.errorf("the stream never ended")
		}
		if !c.takesAndSettles(store) {
			return
		}
		c.wantSettled(settled, http.StatusAccepted)
		c.wantLeft(c.limiter(counting("test", 4, 300)), "after 3 words that were charged as 250", "calls", 3, "words", 297)
	})
}

// streamCharges checks what streamed responses are charged, by one limiter and
// by two.
func (s *suite) streamCharges() {
	k := s.kit
	s.rule("a streamed response that is not to be settled is charged once", func(c *trial) {
		l := c.limiter(counting("test", 4, 12))
		app := c.serve(c.app(func(context.Context) Reply {
			return Reply{Status: http.StatusOK, Stream: func(w io.Writer, _ func() error) { _, _ = io.WriteString(w, "all") }}
		}, middleware{Limiter: l, Key: k.Global("all"), Options: []anyOption{k.WithUnits(words)}}))
		c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "the request")
		c.wantLeft(l, "afterwards", "calls", 3, "words", 7)
	})
	s.rule("two limiters settle one streamed response", func(c *trial) {
		store := announcedStore{c.store, make(chan struct{}, 10)}
		var produced atomic.Int64
		settled := [2]*settlements{}
		var use []middleware
		for i, name := range []string{"outer", "inner"} {
			settled[i] = &settlements{units: func() core.Units { return core.Units{"words": produced.Load()} }}
			use = append(use, middleware{Limiter: c.limiterOn(store, counting(name, 4, 12)), Key: k.Global("all"),
				Options: []anyOption{k.WithUnits(words), k.WithSettle(settled[i].settle)}})
		}
		app := c.serve(c.app(func(context.Context) Reply {
			return Reply{Status: http.StatusOK, Stream: func(w io.Writer, _ func() error) {
				_, _ = io.WriteString(w, "all")
				produced.Store(2)
			}}
		}, use...))
		c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "the request")
		for range 4 {
			if !c.within(store.done) {
				c.errorf("not both limiters took and settled the words")
				return
			}
		}
		c.wantSettled(settled[0], 200)
		c.wantSettled(settled[1], 200)
		c.wantLeft(c.limiter(counting("outer", 4, 12)), "the outer limiter", "calls", 3, "words", 10)
		c.wantLeft(c.limiter(counting("inner", 4, 12)), "the inner limiter", "calls", 3, "words", 10)
	})
}

// neverSettled checks what happens to estimates that nothing settles.
func (s *suite) neverSettled() {
	k, both := s.kit, counting("test", 9, 50)
	held := both
	held.Limits = []core.Limit{both.Limits[0], both.Limits[1].WithMaxHold(time.Minute)}
	heldOverride, shadow := both, held
	heldOverride.Overrides, shadow.Shadow = map[string][]core.Limit{"ann": held.Limits}, true
	for where, policy := range map[string]core.Policy{"a limit": held, "an override": heldOverride} {
		s.rule("New and NewTogether panic if "+where+" gives estimates back and the middleware never settles them", func(c *trial) {
			const mistake = `"test" has a limit of words with a MaxHold, and this middleware settles nothing`
			l := c.limiter(policy)
			c.wantPanic(middleware{Limiter: l, Key: k.Global("all"), Options: []anyOption{k.WithUnits(words)}}, "New limiter: "+mistake)
			c.wantPanic(middleware{Together: []rule{{c.named("one", 1), k.Global("all")}, {l, k.Global("all")}}, Options: []anyOption{k.WithUnits(words)}},
				"NewTogether rules[1].Limiter: "+mistake)
		})
	}
	s.rule("an estimate that WithSettle leaves as it is stays charged after MaxHold", func(c *trial) {
		for _, together := range []bool{false, true} {
			policy := held
			policy.Name = fmt.Sprint("together-", together)
			l := c.limiter(policy)
			settle, units := k.WithSettle(new(settlements).settle), k.WithUnits(words)
			app := c.use(l, k.Global("all"), units, settle)
			if together {
				app = c.useTogether([]rule{{l, k.Global("all")}}, units, settle)
			}
			c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "the request")
			c.wantLeft(l, "afterwards", "calls", 8, "words", 45)
			c.clock.advance(2 * time.Minute)
			c.wantLeft(l, "after MaxHold", "calls", 8, "words", 45)
		}
	})
	s.rule("estimates that come back are no mistake with WithSettle, nor in shadow mode", func(c *trial) {
		l := c.limiter(held)
		app := c.use(l, k.Global("all"), k.WithUnits(words), k.WithSettle(giving(20).settle))
		c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "the request")
		c.wantLeft(l, "afterwards", "calls", 8, "words", 30)
		c.wantStatus(c.use(c.limiter(shadow), k.Global("all"), k.WithUnits(words)).send(request{}), http.StatusOK, "the request in shadow mode")
	})
}
