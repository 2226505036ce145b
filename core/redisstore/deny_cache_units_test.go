package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A denial is repeated until the limits that the request takes from have its
// tokens. Those of other units may lack theirs.
func TestDenyCacheCountsNoOtherUnits(t *testing.T) {
	ctx := t.Context()
	clock := limittest.NewClock()
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), core.WithClock(clock.Now), redisstore.WithDenyCache(time.Minute), longTimeout), "api",
		core.PerMinute(60).WithBurst(1), core.PerHour(1).WithUnit("tokens"))
	res, err := l.AllowUnits(ctx, "k", core.Units{"tokens": 1})
	require.NoError(t, err)
	require.True(t, res.Allowed)
	for _, source := range []core.Source{core.FromStore, core.FromDenyCache} {
		res, err = l.Allow(ctx, "k")
		require.NoError(t, err)
		assert.Equal(t, source, res.Source)
		assert.Equal(t, time.Second, res.RetryAfter)
	}
	clock.Move(time.Second)
	limittest.Use(t, l, "k", 1)
}
