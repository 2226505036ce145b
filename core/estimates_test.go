package core_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A gateway that charges calls afterwards admits all that run at once.
// Estimates count before the call, whether they come back or not.
func TestConcurrentCallsCantPassALimitByTheirEstimates(t *testing.T) {
	for rule, limit := range map[string]core.Limit{
		"estimates that stay":      core.PerMonth(1000).WithUnit("tokens"),
		"estimates that come back": core.PerMonth(1000).WithUnit("tokens").WithMaxHold(time.Hour),
	} {
		t.Run(rule, func(t *testing.T) {
			ctx := context.Background()
			now := time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), core.Policy{Name: "llm", Limits: []core.Limit{limit}}))
			var admitted atomic.Int64
			begin, decided := make(chan bool), sync.WaitGroup{}
			decided.Add(50)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					<-begin
					res, err := limiter.AllowUnits(ctx, "ann", core.Units{"tokens": 100, core.Requests: 0})
					decided.Done()
					if !assert.NoError(t, err) || !res.Allowed {
						return
					}
					admitted.Add(1)
					decided.Wait() // the call goes on until all others have asked
					assert.NoError(t, res.Settle(ctx, core.Units{"tokens": 90}))
				})
			}
			close(begin)
			all.Wait()
			assert.Equal(t, int64(10), admitted.Load(), "as many calls as the limit has estimates run at once")
			left := core.Must(limiter.Peek(ctx, "ann"))
			assert.Equal(t, int64(100), left.Remaining, "and what they used is charged")
		})
	}
}
