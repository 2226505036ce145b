package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// allow checks decisions within handlers.
func (s *suite) allow() {
	s.allowAnswers()
	s.allowFails()
	s.allowResults()
	s.allowAgain()
	s.allowGivesUp()
}

// asks runs an app whose handlers call Allow with the limiter and keys.
func (c *trial) asks(l *core.Limiter, keys func(Header) []string, then func(core.Result)) *server {
	c.t.Helper()
	return c.serve(c.app(answer(http.StatusOK), middleware{Limiter: l, Handler: &handler{keys: keys, then: then}}))
}

// constant returns a function that returns keys.
func constant(keys ...string) func(Header) []string {
	return func(Header) []string { return keys }
}

// emptied returns a limiter that denies key.
func (c *trial) emptied(key string) *core.Limiter {
	c.t.Helper()
	l := c.limiter(core.Policy{Name: "emptied", Limits: []core.Limit{slow(1)}})
	if _, err := l.Allow(context.Background(), key); err != nil {
		c.t.Fatal(err)
	}
	return l
}

// allowAnswers checks what requests are answered.
func (s *suite) allowAnswers() {
	s.rule("Allow sets the header fields, and answers a denial, as a middleware does", func(c *trial) {
		limit := core.Limit{Name: "login", Capacity: 2, RefillRate: 1, RefillInterval: 13 * time.Second}
		app := c.asks(c.limiter(core.Policy{Name: "login", Limits: []core.Limit{limit}}), func(h Header) []string { return []string{h("User")} }, nil)
		buckets := map[string]model{"bob": newModel(limit), "eve": newModel(limit)}
		for _, user := range []string{"bob", "bob", "bob", "eve"} {
			for _, method := range []string{http.MethodPost, http.MethodHead} {
				d := decision{buckets[user], 1, buckets[user].take(1), c.clock.Now()}
				got := app.send(request{method: method, header: header("User", user)})
				status := http.StatusTooManyRequests
				if d.allowed {
					status = http.StatusOK
				}
				c.wantStatus(got, status, method+" of "+user)
				if wrong := c.wrongFields(got.header, core.HeadersDefault, d, d); wrong != "" {
					c.errorf("%s of %s, answered %d:\n%s", method, user, got.status, wrong)
				}
				if !d.allowed && method != http.MethodHead && c.kit.ProblemBody {
					c.wantProblem(got, status, "a denial")
				}
				if method == http.MethodHead && got.body != "" {
					c.errorf("HEAD of %s has the body %q", user, got.body)
				}
			}
		}
	})
}

// allowFails checks requests that can't be decided.
func (s *suite) allowFails() {
	tokens := []core.Limit{{Capacity: 9, RefillRate: 1, RefillInterval: time.Hour, Unit: "tokens"}}
	for _, trouble := range []struct {
		name   string
		status int
		store  core.Store // nil: that of the trial
		policy core.Policy
		key    string
	}{
		{"without a key", http.StatusBadRequest, nil, policyOf(1), ""},
		{"of a store that does not answer", http.StatusServiceUnavailable, brokenStore{}, core.Policy{Name: "closed", Limits: []core.Limit{slow(1)}, OnFailure: core.FailClosed}, "bob"},
		{"of a policy that counts no requests", http.StatusInternalServerError, nil, core.Policy{Name: "tokens", Limits: tokens}, "bob"},
	} {
		limiter := func(c *trial) *core.Limiter {
			if trouble.store != nil {
				return c.limiterOn(trouble.store, trouble.policy)
			}
			return c.limiter(trouble.policy)
		}
		s.rule("Allow "+trouble.name+" is an answer, and never a panic", func(c *trial) {
			log := logtest.Capture(func() {
				app := c.asks(limiter(c), constant(trouble.key), nil)
				for range 3 {
					c.wantRefusal(app.send(request{}), trouble.status, "a request")
				}
			})
			if n := strings.Count(log, "RL707"); n > 1 {
				c.errorf("clients without a key must not fill the log: %d lines", n)
			}
		})
		s.rule("Allow "+trouble.name+" refuses nothing in shadow mode", func(c *trial) {
			trouble.policy.Shadow = true
			app := c.asks(limiter(c), constant(trouble.key), nil)
			for range 3 {
				c.wantStatus(app.send(request{}), http.StatusOK, "a request")
			}
		})
	}
	s.rule("Allow denies nothing in shadow mode", func(c *trial) {
		policy := policyOf(1)
		policy.Shadow = true
		app := c.asks(c.limiter(policy), constant("all"), nil)
		for range 3 {
			c.wantStatus(app.send(request{}), http.StatusOK, "a request, with a capacity of 1")
		}
	})
	s.rule("Allow takes the requests of a policy that counts other units too", func(c *trial) {
		policy := policyOf(1)
		policy.Limits = append(policy.Limits, tokens...)
		app := c.asks(c.limiter(policy), constant("all"), nil)
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			c.wantStatus(app.send(request{}), status, "a request, with a capacity of 1")
		}
	})
}

// allowResults checks what handlers get.
func (s *suite) allowResults() {
	s.rule("the Result of Allow gives tokens back to the bucket that they came from, also after the request", func(c *trial) {
		l := c.holding(5)
		var kept []core.Result
		app := c.asks(l, func(h Header) []string { return []string{h("User")} }, func(res core.Result) { kept = append(kept, res) })
		for _, user := range []string{"alice", "mallo"} { // of one length, because fasthttp reuses its buffers
			c.wantStatus(app.send(request{header: header("User", user)}), http.StatusOK, user)
		}
		if err := kept[0].Undo(c.t.Context()); err != nil {
			c.errorf("Undo: %v", err)
		}
		for user, want := range map[string]int64{"alice": 5, "mallo": 4} {
			if res, err := l.Peek(c.t.Context(), user); err != nil || res.Remaining != want {
				c.errorf("after the first request, of alice, was undone, %s has %d tokens, %v; want %d", user, res.Remaining, err, want)
			}
		}
	})
	s.rule("behind a limiter FromContext returns the decision of Allow, and AllFromContext both", func(c *trial) {
		app := c.serve(c.app(answer(http.StatusOK),
			middleware{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{slow(9)}}), c.kit.Global("all"), nil, nil, nil, nil},
			middleware{Limiter: c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{slow(5)}}), Handler: &handler{keys: constant("all")}}))
		got := app.send(request{})
		c.wantRemaining(got, 4, "a request")
		if all, want := got.header.Get(AllHeader), "inner 4, outer 8"; all != want {
			c.errorf("AllFromContext returned %q, want %q", all, want)
		}
	})
}

// allowAgain checks handlers that call Allow more than once.
func (s *suite) allowAgain() {
	s.rule("handlers that call Allow in a loop keep one decision of each bucket, and log no double charge", func(c *trial) {
		log := logtest.Capture(func() {
			app := c.serve(c.app(answer(http.StatusOK),
				middleware{c.limiter(core.Policy{Name: "outer", Limits: []core.Limit{slow(9)}}), c.kit.Global("all"), nil, nil, nil, nil},
				middleware{Limiter: c.limiter(core.Policy{Name: "inner", Limits: []core.Limit{slow(50)}}), Handler: &handler{keys: constant("a", "a", "b", "a", "b", "b")}}))
			got := app.send(request{})
			if all, want := got.header.Get(AllHeader), "inner 47, inner 47, outer 8"; all != want {
				c.errorf("after Allow for a, a, b, a, b, b AllFromContext returned %q, want %q", all, want)
			}
		})
		if n := strings.Count(log, "RL704"); n > 0 {
			c.errorf("a handler may ask for a key again: RL704 was logged %d times", n)
		}
	})
	s.rule("a request that a middleware and Allow charge for one key is logged once", func(c *trial) {
		l := c.limiter(core.Policy{Name: fmt.Sprint("twice ", policies.Add(1)), Limits: []core.Limit{slow(50)}})
		log := logtest.Capture(func() {
			app := c.serve(c.app(answer(http.StatusOK),
				middleware{l, c.kit.Custom(func(Header) (string, error) { return "all", nil }), nil, nil, nil, nil},
				middleware{Limiter: l, Handler: &handler{keys: constant("all")}}))
			for range 3 {
				c.wantStatus(app.send(request{}), http.StatusOK, "a request")
			}
		})
		if n := strings.Count(log, "RL704"); n != 1 {
			c.errorf("RL704 was logged %d times, want once", n)
		}
	})
	s.rule("Allow ends the request at the first refusal", func(c *trial) {
		app := c.asks(c.holding(1), constant("a", "b", "a", "b"), nil)
		got := app.send(request{})
		c.wantStatus(got, http.StatusTooManyRequests, "Allow for a, b, a, b with a capacity of 1")
	})
}

// policies counts policies whose warnings are looked for: those of handlers are
// logged once for each name.
var policies atomic.Int64

// allowGivesUp checks clients that leave while a store hangs.
func (s *suite) allowGivesUp() {
	if !s.kit.ContextEnds {
		return
	}
	s.rule("Allow stops waiting for a store when the client leaves", func(c *trial) {
		hanging := hangingStore{asked: make(chan struct{}, 1), left: make(chan struct{}, 1)}
		app := c.asks(c.limiterOn(hanging, policyOf(1)), constant("all"), nil)
		ctx, leave := context.WithCancel(c.t.Context())
		defer leave()
		go func() { _, _ = app.try(ctx, request{}) }()
		for _, step := range []struct {
			name string
			done <-chan struct{}
		}{{"asks the store", hanging.asked}, {"stops asking when the client has left", hanging.left}} {
			select {
			case <-step.done:
			case <-time.After(patience):
				c.t.Fatalf("the rule: %s\nit never %s", c.rule, step.name)
			}
			leave()
		}
	})
}

// hangingStore answers when the request's context ends.
type hangingStore struct{ asked, left chan struct{} }

func (h hangingStore) Do(ctx context.Context, _ store.Request) (store.Answer, error) {
	h.asked <- struct{}{}
	<-ctx.Done()
	h.left <- struct{}{}
	return store.Answer{}, ctx.Err()
}

func (hangingStore) Reset(context.Context, string, string) error { return nil }
