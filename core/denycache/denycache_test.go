package denycache_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denycache"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
)

func TestConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return denycache.New(core.NewMemoryStore(core.WithClock(clock)), time.Hour)
	})
}

func TestDenialIsRepeatedUntilTheTokensAreThere(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	store := denycache.New(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), time.Hour)
	l, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1)}})
	require.NoError(t, err)
	ask := func(source core.Source, allowed bool, retry time.Duration, rule string) {
		t.Helper()
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, allowed, res.Allowed, rule)
		assert.Equal(t, source, res.Source, rule)
		if !allowed {
			assert.Equal(t, retry, res.RetryAfter, rule)
		}
	}
	ask(core.FromStore, true, 0, "the first is allowed")
	ask(core.FromStore, false, time.Minute, "the store denies")
	now = now.Add(20 * time.Second)
	ask(core.FromDenyCache, false, 40*time.Second, "the denial still holds, and tells what is left of its wait")
	now = now.Add(40 * time.Second)
	ask(core.FromStore, true, 0, "the tokens are there")
	ask(core.FromStore, false, time.Minute, "the store denies")
	require.NoError(t, l.Refund(t.Context(), "k", 1))
	ask(core.FromStore, true, 0, "a refund ends the denial")
	ask(core.FromStore, false, time.Minute, "the store denies")
	require.NoError(t, l.Reset(t.Context(), "k"))
	ask(core.FromStore, true, 0, "a reset ends the denial")
	assert.EqualValues(t, 1, store.Repeated())
}
