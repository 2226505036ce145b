package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// What was released while Redis was away is sent before the first decision
// after that, whoever tries Redis first.
func TestFirstDecisionAfterAnOutageComesAfterWhatWasReturned(t *testing.T) {
	client, hook := redistest.Client(t), &brokenHook{}
	client.AddHook(hook)
	s := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithBreaker(2, 2*time.Millisecond))
	l := core.Must(core.NewLimiter(s, core.Policy{
		Name: "api", Limits: []core.Limit{core.InFlight(1).WithMaxHold(time.Hour)}, OnFailure: core.FailClosed,
	}))
	ctx := t.Context()
	hook.works.Store(true)
	res, err := l.Allow(ctx, "k")
	require.True(t, err == nil && res.Allowed, err)
	for range 30 {
		hook.works.Store(false)
		for !errors.Is(err, core.ErrBreakerOpen) {
			_, err = l.Peek(ctx, "k")
		}
		require.ErrorIs(t, res.Release(ctx), core.ErrUnavailable)
		hook.works.Store(true)
		for deadline := time.Now().Add(20 * time.Second); err != nil; {
			require.True(t, time.Now().Before(deadline), "Redis is not back: %v", err)
			res, err = l.Allow(ctx, "k")
		}
		if !assert.True(t, res.Allowed, "the slot was released before") {
			return
		}
	}
}
