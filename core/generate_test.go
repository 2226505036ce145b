package core_test

import (
	"context"
	"flag"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
)

// What the property tests draw from.

// A failure is told in seconds; -rapid.shrinktime asks for a smaller example.
func init() { _ = flag.Set("rapid.shrinktime", "3s") }

var drawMode = rapid.SampledFrom([]core.Mode{core.Continuous, core.Stepped, core.Aligned})

// drawInterval favours what people write, and has odd nanoseconds too.
var drawInterval = rapid.OneOf(
	rapid.SampledFrom([]time.Duration{
		time.Microsecond, time.Millisecond, time.Second, 2 * time.Second, 30 * time.Second, time.Minute, time.Hour,
		24 * time.Hour, 7 * 24 * time.Hour, 1000, 1001, 1999, time.Second + 7, time.Second/3 + 1, 100 * 365 * 24 * time.Hour,
	}),
	rapid.Map(rapid.Int64Range(1000, int64(400*24*time.Hour)), func(n int64) time.Duration { return time.Duration(n) }),
)

// drawCapacity is uniform in the number of digits.
var drawCapacity = rapid.OneOf(
	rapid.Int64Range(1, 20),
	rapid.Custom(func(t *rapid.T) int64 {
		top := int64(math.Pow10(rapid.IntRange(1, 15).Draw(t, "digits")))
		return rapid.Int64Range(1, top-1).Draw(t, "capacity")
	}),
	rapid.Just(int64(999_999_999_999_999)),
)

// drawRate is a number of few or many decimals.
func drawRate(capacity int64) *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(1, 100), func(n int64) float64 { return float64(n) }),
		rapid.Just(float64(capacity)),
		rapid.SampledFrom([]float64{1, 0.1, 0.25, 0.01, 1e6, 1.0 / 3, 33.333, 999_983, 1e-3, 2.5}),
		rapid.Custom(func(t *rapid.T) float64 {
			decimals := rapid.IntRange(0, 6).Draw(t, "decimals")
			return float64(rapid.Int64Range(1, 1e7).Draw(t, "numerator")) / math.Pow10(decimals)
		}),
	)
}

// drawLimit is any limit that a constructor accepts.
var drawLimit = rapid.Custom(func(t *rapid.T) core.Limit {
	l := core.Limit{Capacity: drawCapacity.Draw(t, "capacity"), RefillInterval: drawInterval.Draw(t, "interval"), Mode: drawMode.Draw(t, "mode")}
	l.RefillRate = drawRate(l.Capacity).Draw(t, "rate")
	return l
}).Filter(valid)

// valid relies on a promise of MaxIn: what no constructor would accept admits nothing.
func valid(l core.Limit) bool { return l.MaxIn(0) > 0 }

// drawLimits is 1 to 6 limits, some of them named.
func drawLimits(limit *rapid.Generator[core.Limit]) *rapid.Generator[[]core.Limit] {
	return rapid.Custom(func(t *rapid.T) []core.Limit {
		limits := rapid.SliceOfN(limit, 1, 6).Draw(t, "limits")
		for i := range limits {
			if rapid.Bool().Draw(t, "named") {
				limits[i].Name = "limit-" + strconv.Itoa(i)
			}
		}
		return limits
	})
}

// drawCost asks mostly for what the tightest limit could grant.
func drawCost(limits []core.Limit) *rapid.Generator[int64] {
	least := limits[0].Capacity
	for _, l := range limits {
		least = min(least, l.Capacity)
	}
	return rapid.OneOf(
		rapid.Int64Range(0, min(least, 3)),
		rapid.Int64Range(0, least),
		rapid.SampledFrom([]int64{0, 1, least, (least + 1) / 2, least - 1, least + 1, math.MaxInt64}),
	)
}

// drawMove is how far the clock goes: exactly to the last RetryAfter, around it, by parts and
// multiples of the intervals, or back.
func drawMove(limits []core.Limit, retry time.Duration) *rapid.Generator[time.Duration] {
	if retry == core.Never {
		retry = time.Hour
	}
	interval := rapid.Map(rapid.SampledFrom(limits), func(l core.Limit) time.Duration { return l.RefillInterval })
	return rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, time.Nanosecond, time.Microsecond, retry, retry - time.Microsecond, retry / 2, time.Second}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			parts := float64(interval.Draw(t, "interval")) * rapid.Float64Range(0, 4).Draw(t, "intervals")
			return time.Duration(min(parts, float64(100*365*24*time.Hour)))
		}),
		interval,
	)
}

// drawBack is how far a clock steps back.
var drawBack = rapid.OneOf(
	rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, time.Hour, 30 * 24 * time.Hour}),
	rapid.Map(rapid.Int64Range(1, int64(time.Minute)), func(n int64) time.Duration { return time.Duration(n) }),
)

// testClock stands still until it is moved, between 1971 and 2112.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

var (
	earliest = time.Date(1971, time.January, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2112, time.January, 1, 0, 0, 0, 0, time.UTC)
)

func newTestClock() *testClock {
	return &testClock{now: time.Date(2026, time.March, 4, 10, 20, 30, 0, time.UTC)}
}

func drawClock(t *rapid.T) *testClock {
	return &testClock{now: time.UnixMicro(rapid.Int64Range(earliest.UnixMicro(), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()).Draw(t, "start"))}
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to := c.now.Add(d); to.After(earliest) && to.Before(latest) {
		c.now = to
	}
}

// decidingStore is a store built on Request.Decide, as people write them.
type decidingStore struct {
	now    func() time.Time
	mu     sync.Mutex
	states map[string][]byte
	last   core.Request // for tests that want a Request
}

func newDecidingStore(now func() time.Time) *decidingStore {
	return &decidingStore{now: now, states: make(map[string][]byte)}
}

func (s *decidingStore) Do(_ context.Context, r core.Request) (core.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = r
	address := core.JoinKey(r.Policy(), r.Key())
	a, next, _, err := r.Decide(s.states[address], s.now())
	if next != nil {
		s.states[address] = next
	}
	return a, err
}

func (s *decidingStore) Reset(_ context.Context, policy, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.states, core.JoinKey(policy, key))
	return nil
}

// limiter returns a limiter that fails closed, so that errors of the store are seen.
func limiter(t testing.TB, s core.Store, policy string, limits ...core.Limit) *core.Limiter {
	t.Helper()
	l, err := core.NewLimiter(s, core.Policy{Name: policy, Limits: limits, OnFailure: core.FailClosed})
	if err != nil {
		t.Fatalf("NewLimiter: %v", err)
	}
	return l
}
