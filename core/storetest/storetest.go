// Package storetest checks stores of token buckets. Whoever writes a [core.Store] of their own calls
// [Run] from a test:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clock func() time.Time) core.Store {
//			return mystore.New(clock)
//		})
//	}
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Run checks the stores that open returns against every rule of [core.Store], each in a subtest that
// is named after its rule. open is called once for each and returns an empty store that takes the
// time from clock; it may skip the test. The clock shows dates around 2026 and stands still but when
// a rule moves it, at times backwards.
//
// State must be kept as [core.Request.Decide] says, at least until the bucket is full. A store may
// measure that on the clock or in real time: no rule needs state for more than a few seconds.
func Run(t *testing.T, open func(t *testing.T, clock func() time.Time) core.Store) {
	t.Helper()
	for _, r := range slices.Concat(takeRules, refillRules, clockRules, refundRules, reserveRules, waitRules,
		deployRules, keyRules, concurrencyRules) {
		t.Run(r.name, func(t *testing.T) {
			c := &testClock{now: start}
			r.check(&subject{T: t, clock: c, store: open(t, c.Now)})
		})
	}
}

// storeRule is one demand on a store.
type storeRule struct {
	name  string
	check func(*subject)
}

// subject is the store under test, one rule's own.
type subject struct {
	*testing.T
	clock *testClock
	store core.Store
}

// key is the key of rules that need only one.
const key = "user"

// limiter returns a limiter of the policy "api". It fails closed, so that a store's error is seen.
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

// take asks for cost tokens of the key.
func (s *subject) take(l *core.Limiter, cost int64) core.Result {
	s.Helper()
	res, err := l.AllowN(s.Context(), key, cost)
	if err != nil {
		s.Fatalf("AllowN(%d): %v", cost, err)
	}
	return res
}

// grants demands that cost tokens are granted and leave the given number.
func (s *subject) grants(l *core.Limiter, cost, left int64, rule string) {
	s.Helper()
	if res := s.take(l, cost); !res.Allowed || res.Remaining != left || res.RetryAfter != 0 {
		s.Errorf("%s: AllowN(%d) = allowed %v, %d left, retry after %v; want allowed, %d left", rule,
			cost, res.Allowed, res.Remaining, res.RetryAfter, left)
	}
}

// denies demands that cost tokens are denied, and leave the given number and the delay after which
// the same request passes.
func (s *subject) denies(l *core.Limiter, cost, left int64, retry time.Duration, rule string) {
	s.Helper()
	if res := s.take(l, cost); res.Allowed || res.Remaining != left || res.RetryAfter != retry {
		s.Errorf("%s: AllowN(%d) = allowed %v, %d left, retry after %v; want denied, %d left, retry after %v", rule,
			cost, res.Allowed, res.Remaining, res.RetryAfter, left, retry)
	}
}

// holds demands that the key's tightest limit has so many tokens.
func (s *subject) holds(l *core.Limiter, left int64, rule string) {
	s.Helper()
	if res := s.take(l, 0); res.Remaining != left {
		s.Errorf("%s: %d tokens are left, want %d", rule, res.Remaining, left)
	}
}

// no demands that err is nil.
func (s *subject) no(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
