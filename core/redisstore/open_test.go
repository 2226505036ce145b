package redisstore_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestOpenedStoreDecidesUntilItIsClosed(t *testing.T) {
	store, err := redisstore.Open("redis://"+redistest.Addr(t), redisstore.WithPrefix(redistest.Prefix()), longTimeout)
	require.NoError(t, err)
	l := limittest.Limiter(t, store, "api", core.PerMinute(2))
	limittest.Use(t, l, "k", 1)
	require.NoError(t, store.Close())
	_, err = l.Allow(t.Context(), "k")
	require.ErrorIs(t, err, core.ErrUnavailable)
}

func TestCloseLeavesACallersClientOpen(t *testing.T) {
	client := redistest.Client(t)
	require.NoError(t, redisstore.New(client).Close())
	assert.NoError(t, client.Ping(t.Context()).Err())
}
