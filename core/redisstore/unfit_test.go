package redisstore_test

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// An exception for a limit that this version of the policy does not have is
// left out. Blocks and all others hold.
func TestExceptionsThatDoNotFitLeaveTheOthersInForce(t *testing.T) {
	var log bytes.Buffer
	store := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(10*time.Second), core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4).WithName("hour"), core.PerDay(9).WithName("day")}}))
	for key, limits := range map[string][]core.Limit{
		"ann": {core.PerHour(400).WithName("hour")}, "bob": {core.PerHour(400).WithName("hours")}, "bobby": {core.PerDay(900).WithName("day")}, "eve": nil,
	} {
		require.NoError(t, store.SetException(t.Context(), "api", redisstore.Exception{Key: key, Limits: limits}))
	}
	require.ErrorContains(t, store.ReadExceptions(t.Context(), limiter), `"hours" is no limit of the policy`)
	for key, want := range map[string][]int64{"ann": {400, 9}, "bob": {4, 9}, "bobby": {4, 900}, "eve": {4, 9}} {
		res, err := limiter.Allow(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, key != "eve", res.Allowed, key)
		assert.Equal(t, want, []int64{res.Limits()[0].Limit.Capacity, res.Limits()[1].Limit.Capacity}, key)
	}
}
