// Package storetest tests stores of token buckets. If you write a [core.Store],
// call [Run] from a test:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clock func() time.Time) core.Store {
//			return mystore.New(clock)
//		})
//	}
//
// See [docs/testing.md].
//
// [docs/testing.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/testing.md
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bounded"
)

// longest bounds the check of a rule, whatever it waits for.
var longest = time.Minute

// Run checks the stores that open returns against every rule of [core.Store].
// Each rule is a subtest with the rule's name. Run calls open once for each
// rule. open returns an empty store that reads the time from clock, or skips
// the test. The clock shows dates around 2026, but in rules on the ends of its
// range. It stands still, except when a rule moves it, at times backwards, or
// lets it run.
//
// The store must keep state as [store.Request.Decide] says, at least until the
// bucket is full. It may measure that time on clock or in real time: no rule
// needs state for more than a few real seconds. A check that hangs in the store
// fails its rule after a minute.
func Run(t *testing.T, open func(t *testing.T, clock func() time.Time) core.Store) {
	t.Helper()
	for _, r := range slices.Concat(takeRules, refillRules, clockRules, rangeRules, refundRules, reserveRules, waitRules,
		unitRules, calendarRules, definitionRules, deployRules, keyRules, concurrencyRules, jointRules,
		slotRules, estimateRules) {
		t.Run(r.name, func(t *testing.T) {
			c := &testClock{now: start}
			store := open(t, c.Now)
			bounded.Check(t, r.name, longest, func(t testing.TB) { r.check(&subject{TB: t, clock: c, store: store}) })
		})
	}
}

// storeRule is one rule that stores must keep.
type storeRule struct {
	name  string
	check func(*subject)
}

// subject is the store that one rule tests.
type subject struct {
	testing.TB
	clock *testClock
	store core.Store
}

// key is the key of rules that use only one.
const key = "user"

// limiter returns a limiter of the policy "api". It fails closed, so that the
// test sees errors of the store.
func (s *subject) limiter(limits ...core.Limit) *core.Limiter {
	s.Helper()
	return s.limiterOf("api", limits...)
}

func (s *subject) limiterOf(policy string, limits ...core.Limit) *core.Limiter {
	s.Helper()
	l, err := core.NewLimiter(s.store, core.Policy{Name: policy, Limits: limits, OnFailure: core.FailClosed})
	if err != nil {
		s.Fatalf("NewLimiter: %v", err)
	}
	return l
}

// take takes cost tokens of key.
func (s *subject) take(l *core.Limiter, cost int64) core.Result {
	s.Helper()
	res, err := l.AllowN(s.Context(), key, cost)
	if err != nil {
		s.Fatalf("AllowN(%d): %v", cost, err)
	}
	return res
}

// grants checks that a request for cost tokens is allowed and leaves the given
// number.
func (s *subject) grants(l *core.Limiter, cost, left int64, rule string) {
	s.Helper()
	if res := s.take(l, cost); !res.Allowed || res.Remaining != left || res.RetryAfter != 0 {
		s.Errorf("%s: AllowN(%d) = allowed %v, %d left, retry after %v; want allowed, %d left", rule,
			cost, res.Allowed, res.Remaining, res.RetryAfter, left)
	}
}

// denies checks that a request for cost tokens is denied, with the given number
// left and the given RetryAfter.
func (s *subject) denies(l *core.Limiter, cost, left int64, retry time.Duration, rule string) {
	s.Helper()
	if res := s.take(l, cost); res.Allowed || res.Remaining != left || res.RetryAfter != retry {
		s.Errorf("%s: AllowN(%d) = allowed %v, %d left, retry after %v; want denied, %d left, retry after %v", rule,
			cost, res.Allowed, res.Remaining, res.RetryAfter, left, retry)
	}
}

// holds checks that the key's tightest limit has so many tokens.
func (s *subject) holds(l *core.Limiter, left int64, rule string) {
	s.Helper()
	if res := s.take(l, 0); res.Remaining != left {
		s.Errorf("%s: %d tokens are left, want %d", rule, res.Remaining, left)
	}
}

// no checks that err is nil.
func (s *subject) no(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
