package series_test

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

func TestCacheHoldsABoundedNumberOfSeries(t *testing.T) {
	var made sync.Map
	var count atomic.Int64
	c := series.New(10, func(k series.Key) *series.Key {
		_, twice := made.LoadOrStore(k, true)
		assert.False(t, twice, "create is called once for a key: %v", k)
		count.Add(1)
		return &k
	})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				k := series.Of(&core.Observation{Policy: strconv.Itoa(i), Limit: "l", Outcome: core.Outcome(i % 2), Source: core.FromLease})
				got := *c.Get(k)
				want := k
				want.Policy, want.Limit = series.Other, series.Other
				assert.Contains(t, []series.Key{k, want}, got)
			}
		})
	}
	all.Wait()
	assert.Equal(t, int64(12), count.Load(), "10 keys, and one allowed and one denied key for all others")
	known := *c.Get(series.Key{Policy: "0", Limit: "l", Source: core.FromLease})
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.Get(known) }))
	unknown := series.Key{Policy: "100", Limit: "l", Source: core.FromLease}
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.Get(unknown) }))
}

func TestTokensAreAtMostTheCapacity(t *testing.T) {
	for rule, test := range map[string]struct{ cost, capacity, want int64 }{
		"a cost that fits":          {5, 20, 5},
		"a cost above the capacity": {21, 20, 20},
		"the largest cost":          {math.MaxInt64, 20, 20},
		"a negative cost":           {-1, 20, 0},
	} {
		assert.Equal(t, test.want, series.Tokens(&core.Observation{Cost: test.cost, Capacity: test.capacity}), rule)
	}
}
