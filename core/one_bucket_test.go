package core_test

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// Random charges of two buckets, some of them of the same: by one limiter, by
// another one of the same policy, by a tier that has some of the limits. What
// was allowed is taken once, a denial takes nothing, results tell the bucket as
// it is, and whoever waits RetryAfter and asks alone is allowed.
func TestChargesOfOneBucketAreExact(t *testing.T) {
	denials := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		clock := limittest.NewClock()
		store := core.NewMemoryStore(core.WithClock(clock.Now))
		requests := core.Limit{
			Name: "requests", Capacity: 12, RefillRate: float64(rapid.IntRange(1, 9).Draw(t, "rate")), RefillInterval: time.Minute,
			Mode: rapid.SampledFrom([]core.Mode{core.Continuous, core.Stepped, core.Aligned}).Draw(t, "mode"),
		}
		tokens := core.PerHour(40).WithName("tokens").WithUnit("tokens")
		open := func(limits ...core.Limit) *core.Limiter {
			return core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: limits, OnFailure: core.FailClosed},
				core.WithLogger(slog.New(slog.DiscardHandler))))
		}
		all := []core.Limit{requests, core.PerHour(30).WithName("hour"), tokens, core.PerDay(25).WithName("day")}
		one, reference := open(all[:3]...), open(all[:3]...)
		limiters := []*core.Limiter{one, one, reference, core.Must(one.WithLimits(requests, tokens, all[3]))}
		every := open(all...)
		left := func(key string) map[string]int64 {
			res, err := every.Peek(ctx, key)
			require.NoError(t, err)
			has := make(map[string]int64)
			for _, l := range res.Limits() {
				has[l.Limit.Name] = l.Remaining
			}
			return has
		}
		for range 20 {
			clock.Move(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "ms")) * time.Millisecond)
			var charges []core.Charge
			sums := map[string]map[string]int64{"ann": {}, "bob": {}} // by key and limit
			never := false
			for range rapid.IntRange(1, 4).Draw(t, "charges") {
				c := core.Charge{
					Limiter: limiters[rapid.IntRange(0, len(limiters)-1).Draw(t, "limiter")],
					Key:     rapid.SampledFrom([]string{"ann", "ann", "bob"}).Draw(t, "key"),
					Units:   core.Units{core.Requests: rapid.Int64Range(0, 6).Draw(t, "requests"), "tokens": rapid.Int64Range(0, 15).Draw(t, "tokens")},
				}
				charges = append(charges, c)
				for _, l := range c.Limiter.Policy().Limits {
					n := c.Units[cmp.Or(l.Unit, core.Requests)]
					sums[c.Key][l.Name] += n
					never = never || sums[c.Key][l.Name] > l.Capacity
				}
			}
			before := map[string]map[string]int64{"ann": left("ann"), "bob": left("bob")}
			j, err := core.AllowTogether(ctx, charges...)
			require.NoError(t, err)
			for i, res := range j.Results {
				has := left(charges[i].Key)
				for _, l := range res.Limits() {
					require.Equal(t, charges[i].Units[cmp.Or(l.Limit.Unit, core.Requests)], l.Cost, "each charge tells its own cost")
					require.Equal(t, has[l.Limit.Name], l.Remaining, "charge %d tells what %q has after all charges; allowed %v", i, l.Limit.Name, j.Allowed)
				}
			}
			for key, had := range before {
				for name, has := range left(key) {
					want := had[name]
					if j.Allowed {
						want -= sums[key][name]
					}
					require.Equal(t, want, has, "%q of %s loses what all its charges cost if they are allowed, %v, or nothing", name, key, j.Allowed)
				}
			}
			if j.Allowed {
				continue
			}
			denials++
			require.Equal(t, never, j.RetryAfter == core.Never, "charges whose sum is above a Capacity can never pass: %v", sums)
			if !never {
				require.Positive(t, j.RetryAfter, "a denial tells when to ask again")
				clock.Move(j.RetryAfter - time.Microsecond)
				early, err := core.AllowTogether(ctx, charges...)
				require.NoError(t, err)
				require.False(t, early.Allowed, "1 µs before RetryAfter of %v", j.RetryAfter)
				clock.Move(time.Microsecond)
				again, err := core.AllowTogether(ctx, charges...)
				require.NoError(t, err)
				require.True(t, again.Allowed, "after RetryAfter of %v the same charges alone are allowed, not in %v", j.RetryAfter, again.RetryAfter)
			}
		}
	})
	assert.Greater(t, denials, 20, "the premise: requests are denied")
}
