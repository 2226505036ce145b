package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// trial is the check of one rule.
type trial[K, O any] struct {
	t     *testing.T
	rule  string
	kit   Kit[K, O]
	clock *clock
	store core.Store
}

func (c *trial[K, O]) errorf(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("the rule: %s\n%s", c.rule, fmt.Sprintf(format, args...))
}

// limiter binds a policy to the trial's store.
func (c *trial[K, O]) limiter(policy core.Policy) *core.Limiter {
	c.t.Helper()
	return c.limiterOn(c.store, policy)
}

func (c *trial[K, O]) limiterOn(store core.Store, policy core.Policy) *core.Limiter {
	c.t.Helper()
	l, err := core.NewLimiter(store, policy)
	if err != nil {
		c.t.Fatal(err)
	}
	return l
}

// holding is a limiter whose buckets hold n tokens and gain none while the clock stands still.
func (c *trial[K, O]) holding(n int64) *core.Limiter {
	c.t.Helper()
	return c.limiter(policyOf(n))
}

func policyOf(n int64) core.Policy {
	return core.Policy{Name: "test", Limits: []core.Limit{slow(n)}}
}

// slow is a limit of n tokens that gains one every 100 days: none while a test runs, even on the
// clock of a store that was not injected.
func slow(n int64) core.Limit {
	return core.Limit{Capacity: n, RefillRate: 1, RefillInterval: 2400 * time.Hour}
}

// use runs an app with one limiter in front of everything.
func (c *trial[K, O]) use(l *core.Limiter, key K, options ...O) *server {
	c.t.Helper()
	return c.serve(c.app(answer(http.StatusOK), Limiter[K, O]{l, key, options}))
}

// answer is a handler that always answers the same.
func answer(status int) func(context.Context) Reply {
	return func(context.Context) Reply { return Reply{Status: status} }
}

// app is an application with limiters in front of all its routes, which share one handler.
func (c *trial[K, O]) app(handle func(context.Context) Reply, use ...Limiter[K, O]) App[K, O] {
	return App[K, O]{
		Context: func(ctx context.Context) context.Context { return ctx },
		Use:     use,
		Routes:  routes[K, O](handle),
	}
}

// routes are the routes of every app here, with limiters of their own.
func routes[K, O any](handle func(context.Context) Reply, use ...Limiter[K, O]) []Route[K, O] {
	var list []Route[K, O]
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		for _, pattern := range []string{"/items/{id}", "/other"} {
			list = append(list, Route[K, O]{method, pattern, use, handle})
		}
	}
	return list
}

// wantStatus reports whether r has the status, and fails the rule if not.
func (c *trial[K, O]) wantStatus(r response, status int, when string) bool {
	c.t.Helper()
	if r.status != status {
		c.errorf("%s: answered %d, want %d\nheader %v\nbody %q", when, r.status, status, r.header, r.body)
	}
	return r.status == status
}

// wantRemaining checks what FromContext told the handler.
func (c *trial[K, O]) wantRemaining(r response, remaining int64, when string) {
	c.t.Helper()
	if want := fmt.Sprintf("remaining %d of 1 limits, from store", remaining); r.status == http.StatusOK && r.body == want {
		return
	}
	c.errorf("%s: answered %d %q, want 200 with %d tokens left", when, r.status, r.body, remaining)
}

// counted wraps handle to count its calls.
func counted(calls *atomic.Int64, handle func(context.Context) Reply) func(context.Context) Reply {
	return func(ctx context.Context) Reply {
		calls.Add(1)
		return handle(ctx)
	}
}

// clock stands still until it is moved.
type clock struct{ micros atomic.Int64 }

// newClock begins between two seconds, so that rounding shows.
func newClock() *clock {
	var c clock
	c.micros.Store(time.Date(2026, 1, 2, 3, 4, 5, 250_000_000, time.UTC).UnixMicro())
	return &c
}

func (c *clock) Now() time.Time          { return time.UnixMicro(c.micros.Load()) }
func (c *clock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }
