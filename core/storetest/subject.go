package storetest

import (
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// start is half past a minute, so that minutes since start and minutes of the
// clock differ.
var start = time.Date(2026, time.March, 4, 10, 20, 30, 0, time.UTC)

// testClock stands still until a rule moves it, or advances by a tick whenever
// it is read.
type testClock struct {
	mu   sync.Mutex
	now  time.Time
	tick time.Duration

	yields bool // many goroutines ask
	reads  atomic.Int64
}

// Now returns the clock's time. If many goroutines ask, every fourth waits a
// while for another one to read it too: where a store is not atomic, they meet.
func (c *testClock) Now() time.Time {
	c.mu.Lock()
	c.now = c.now.Add(c.tick)
	now, yields := c.now, c.yields
	read := c.reads.Add(1)
	c.mu.Unlock()
	for i := 0; yields && read%4 == 0 && i < 100 && c.reads.Load() == read; i++ {
		runtime.Gosched()
	}
	return now
}

// run has many goroutines ask, while the clock advances by d whenever it is
// read.
func (c *testClock) run(d time.Duration, ask func()) {
	set := func(d time.Duration, yields bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tick, c.yields = d, yields
	}
	set(d, true)
	defer set(0, false)
	ask()
}

// move moves the clock by d, back if d is negative.
func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// at moves the clock to t.
func (c *testClock) at(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// subject is the store of which one rule is checked.
type subject struct {
	testing.TB
	rule  string
	clock *testClock
	store core.Store
}

const (
	key    = "user"   // of rules that use only one
	tokens = "tokens" // a unit
)

// silent drops warnings of several versions of a policy.
var silent = core.WithLogger(slog.New(slog.DiscardHandler))

// limiter returns a limiter of the policy "api". It fails closed, so that the
// rule sees errors of the store.
func (s *subject) limiter(limits ...core.Limit) *core.Limiter {
	s.Helper()
	return s.limiterOf("api", limits...)
}

func (s *subject) limiterOf(policy string, limits ...core.Limit) *core.Limiter {
	s.Helper()
	return s.limiterOn(s.store, policy, limits)
}

func (s *subject) limiterOn(store core.Store, policy string, limits []core.Limit) *core.Limiter {
	s.Helper()
	l, err := core.NewLimiter(store, core.Policy{Name: policy, Limits: limits, OnFailure: core.FailClosed}, silent)
	s.no(err)
	return l
}

// no ends the rule if the store has returned an error.
func (s *subject) no(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("the store breaks the rule %q: it returns the error: %v", s.rule, err)
	}
}

// broken reports what the store has done against the rule.
func (s *subject) broken(format string, args ...any) {
	s.Helper()
	s.Errorf("the store breaks the rule %q: "+format, append([]any{s.rule}, args...)...)
}

// allow asks for cost tokens of key.
func (s *subject) allow(l *core.Limiter, cost int64) *core.Result {
	s.Helper()
	res, err := l.AllowN(s.Context(), key, cost)
	s.no(err)
	return &res
}

// units asks for units of key.
func (s *subject) units(l *core.Limiter, units core.Units) *core.Result {
	s.Helper()
	res, err := l.AllowUnits(s.Context(), key, units)
	s.no(err)
	return &res
}

// take takes cost tokens of key, which must be there.
func (s *subject) take(l *core.Limiter, cost int64, when string) *core.Result {
	s.Helper()
	res := s.allow(l, cost)
	if !res.Allowed {
		s.broken("%s: a request for %d is denied, retry after %v; want allowed", when, cost, res.RetryAfter)
	}
	return res
}

// deny asks for cost tokens of key, which must be there in so long.
func (s *subject) deny(l *core.Limiter, cost int64, retry time.Duration, when string) {
	s.Helper()
	if res := s.allow(l, cost); res.Allowed || res.RetryAfter != retry {
		s.broken("%s: a request for %d is allowed: %v, retry after %v; want denied, %v",
			when, cost, res.Allowed, res.RetryAfter, retry)
	}
}

// left checks how many tokens each limit of key has left.
func (s *subject) left(l *core.Limiter, when string, want ...int64) {
	s.Helper()
	s.resultLeft(s.allow(l, 0), when, want...)
}

func (s *subject) resultLeft(res *core.Result, when string, want ...int64) {
	s.Helper()
	limits := res.Limits()
	if len(limits) != len(want) {
		s.Fatalf("the store breaks the rule %q: %s: %d limits, want %d", s.rule, when, len(limits), len(want))
	}
	for i, limit := range limits {
		if limit.Remaining != want[i] {
			s.broken("%s: limit %q has %d left, want %d", when, limit.Limit.Name, limit.Remaining, want[i])
		}
	}
}
