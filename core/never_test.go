package core_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// A program that writes RetryAfter without a thought of Never writes nothing
// absurd, and one that adds to it gets a later time.
func TestNeverIsADelayLikeOthers(t *testing.T) {
	assert.Equal(t, 100*365*24*time.Hour, core.Never)
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.Limit{Capacity: 1, RefillRate: 1, RefillInterval: 70 * 365 * 24 * time.Hour})
	allow(t, l, 1)
	slow := core.Must(l.Allow(t.Context(), "k"))
	assert.Positive(t, slow.RetryAfter)
	assert.Less(t, slow.RetryAfter, core.Never, "the longest delay of a request that can pass")
}

// A denied request that can pass later, and one that never can.
func ExampleNever() {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), core.Policy{
		Name: "uploads", Limits: []core.Limit{core.PerMinute(60)},
	}))
	ctx := context.Background()
	_, _ = limiter.AllowN(ctx, "ann", 60)
	for _, cost := range []int64{10, 61} {
		res, err := limiter.AllowN(ctx, "ann", cost)
		switch {
		case err != nil:
			fmt.Println(err)
		case res.RetryAfter == core.Never:
			fmt.Println("too large: send less than", cost)
		case !res.Allowed:
			fmt.Println("retry after", res.RetryAfter.Seconds(), "seconds")
		}
	}
	// Output:
	// retry after 10 seconds
	// too large: send less than 61
}
