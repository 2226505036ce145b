package core_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A program that writes RetryAfter without a thought of Never writes nothing
// absurd, and one that adds to it gets a later time.
func TestNeverIsADelayLikeOthers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(5), {Name: "slow", Capacity: 1, RefillRate: 1, RefillInterval: 70 * 365 * 24 * time.Hour}}, Blocked: []string{"eve"},
	}))
	blocked := core.Must(l.Allow(t.Context(), "eve"))
	denied := core.Must(l.AllowN(t.Context(), "ann", 6))
	for _, res := range []core.Result{denied, blocked} {
		require.Equal(t, core.Never, res.RetryAfter, "premise")
		body, err := json.Marshal(map[string]any{"retry_after": res.RetryAfter.Seconds()})
		require.NoError(t, err)
		assert.Equal(t, `{"retry_after":3153600000}`, string(body))
		assert.Equal(t, "876000h0m0s", res.RetryAfter.String())
		assert.Equal(t, 2125, now.Add(res.RetryAfter).Year())
		assert.Greater(t, res.RetryAfter+time.Hour, res.RetryAfter)
		h := http.Header{}
		res.WriteHeaders(h)
		assert.NotContains(t, h, "Retry-After")
	}
	core.Must(l.Allow(t.Context(), "ann"))
	slow := core.Must(l.Allow(t.Context(), "ann"))
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
