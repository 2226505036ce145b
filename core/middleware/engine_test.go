package middleware_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// awaiting returns an engine whose requests get a token a second, and one slot.
func awaiting(t *testing.T, options middleware.Options[*call]) (*core.Limiter, *middleware.Engine[*call]) {
	t.Helper()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "messages", Limits: []core.Limit{core.PerSecond(1).WithName("rate"), core.InFlight(1)}}))
	return limiter, middleware.New(limiter, byUser, options, middleware.Protocol[*call]{})
}

// Requests that wait all pass, as fast as tokens come and slots are released.
func TestRequestsThatWaitPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, engine := awaiting(t, middleware.Options[*call]{})
		began := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				c := &call{ctx: t.Context(), user: "ann"}
				a := engine.Await(c, c)
				assert.Equal(t, middleware.Allowed, a.Verdict)
				time.Sleep(100 * time.Millisecond)
				engine.End(c, &a, ok)
			})
		}
		wg.Wait()
		assert.InDelta(t, 4.1, time.Since(began).Seconds(), 0.1, "a token comes every second")
	})
}

// A request that waits for a slot finds it soon after others release it.
func TestARequestThatWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1).WithMaxHold(time.Hour)}}))
		for _, together := range []bool{false, true} {
			engine := middleware.New(limiter, byUser, middleware.Options[*call]{}, middleware.Protocol[*call]{})
			if together {
				rule := middleware.Rule[func(*call) (string, error)]{Limiter: limiter, Key: byUser}
				other := middleware.Rule[func(*call) (string, error)]{Limiter: core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "other", Limits: []core.Limit{core.PerSecond(100)}})), Key: byUser}
				engine = middleware.NewTogether([]middleware.Rule[func(*call) (string, error)]{rule, other}, middleware.Options[*call]{}, middleware.Protocol[*call]{})
			}
			res, err := limiter.Allow(t.Context(), core.JoinKey("user", "ann"))
			require.NoError(t, err)
			time.AfterFunc(time.Minute, func() { _ = res.Release(context.Background()) })
			began := time.Now()
			c := &call{ctx: t.Context(), user: "ann"}
			a := engine.Await(c, c)
			assert.Equal(t, middleware.Allowed, a.Verdict)
			assert.InDelta(t, 60, time.Since(began).Seconds(), 0.051)
			engine.End(c, &a, ok)
			synctest.Wait()
		}
	})
}

func TestRequestsThatNeedNotWait(t *testing.T) {
	cost := middleware.Options[*call]{Cost: func(c *call) (int64, error) { n, err := strconv.ParseInt(c.method, 10, 64); return n, err }}
	for name, test := range map[string]struct {
		cost    string
		within  time.Duration
		outcome middleware.Verdict
		after   time.Duration
	}{
		"a wait that never ends":                {"2", time.Hour, middleware.Denied, 0},
		"a wait that ends after the deadline":   {"1", time.Second / 2, middleware.Denied, 0},
		"a wait that ends before the deadline":  {"1", 2 * time.Second, middleware.Allowed, time.Second},
		"a cost that can't be known":            {"x", time.Hour, middleware.Failed, 0},
		"nothing that is taken from the bucket": {"0", time.Hour, middleware.Allowed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter, engine := awaiting(t, cost)
				res, err := limiter.Allow(t.Context(), core.JoinKey("user", "ann"))
				require.NoError(t, err)
				require.NoError(t, res.Release(t.Context()))
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), test.within)
				defer cancel()
				c := &call{ctx: ctx, user: "ann", method: test.cost}
				a := engine.Await(c, c)
				assert.Equal(t, test.outcome, a.Verdict)
				assert.Equal(t, test.after, time.Since(began).Round(time.Millisecond))
				engine.End(c, &a, ok)
			})
		})
	}
}

func TestARequestThatLeavesTheLineTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, engine := awaiting(t, middleware.Options[*call]{Settle: func(*call, int) core.Units { return nil }})
		began := time.Now()
		res, err := limiter.Allow(t.Context(), core.JoinKey("user", "ann"))
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, leave)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				c := &call{ctx: ctx, user: "ann"}
				a := engine.Await(c, c)
				assert.Equal(t, middleware.Failed, a.Verdict)
				assert.Equal(t, middleware.Ended, a.Cause)
			})
		}
		for time.Since(began) < time.Minute { // the slot is in use all the time
			time.Sleep(10 * time.Second)
			require.NoError(t, res.Hold(t.Context()))
		}
		wg.Wait()
		require.NoError(t, res.Release(t.Context()))
		peek, err := limiter.Peek(t.Context(), core.JoinKey("user", "ann"))
		require.NoError(t, err)
		assert.EqualValues(t, 1, peek.Remaining)
	})
}

// A protocol's own error for a context that has ended counts only if the call's
// has.
func TestErrorsOfAProtocolForCallsThatEnded(t *testing.T) {
	errEnded := errors.New("status canceled")
	protocol := middleware.Protocol[*call]{Ended: func(err error) bool { return errors.Is(err, errEnded) }}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}))
	engine := middleware.New(limiter, func(*call) (string, error) { return "", errEnded }, middleware.Options[*call]{}, protocol)
	ended, end := context.WithCancel(t.Context())
	end()
	for want, ctx := range map[middleware.Cause]context.Context{middleware.Ended: ended, middleware.Internal: t.Context()} {
		c := &call{ctx: ctx}
		a := engine.Begin(c, c)
		assert.Equal(t, want, a.Cause)
	}
}
