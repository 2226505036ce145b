package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/inspect"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A copy has the levels, the holds and the TTL of its source, also where limits
// are named for the policy.
func TestCopyKeepsWhatABucketHas(t *testing.T) {
	client := redistest.Client(t)
	open := func() *redisstore.Store {
		return redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout)
	}
	from, to := open(), open()
	limits := []core.Limit{core.PerDay(1000), core.InFlight(200).WithMaxHold(time.Hour)}
	names := map[string]string{"old-24h": "new-24h", "old-at-once": "new-at-once"}
	before := core.Must(core.NewLimiter(from, core.Policy{Name: "old", Limits: limits}))
	after := core.Must(core.NewLimiter(to, core.Policy{Name: "new", Limits: limits}))
	for range 130 { // of more slots than a block has
		res, err := before.Allow(t.Context(), "ann")
		require.NoError(t, err)
		require.True(t, res.Allowed)
	}
	old, as := redisstore.Bucket{Policy: "old", Key: "ann"}, redisstore.Bucket{Policy: "new", Key: "ann"}
	copied, err := from.CopyTo(t.Context(), old, to, as, names, false)
	require.NoError(t, err)
	assert.True(t, copied)
	want, err := inspect.Key(t.Context(), before, "ann")
	require.NoError(t, err)
	got, err := inspect.Key(t.Context(), after, "ann")
	require.NoError(t, err)
	assert.InDelta(t, want.Expires, got.Expires, float64(time.Minute), "the TTL is copied")
	require.Len(t, got.Limits, 2, "both limits have their new names")
	assert.Zero(t, got.Others)
	assert.Equal(t, int64(130), got.Limits[1].Held)
	for i, l := range peekAnn(t, before).Limits() {
		assert.Equal(t, l.Remaining, peekAnn(t, after).Limits()[i].Remaining, "%s", l.Limit.Name)
	}

	_, err = after.AllowN(t.Context(), "ann", 10)
	require.NoError(t, err)
	copied, err = from.CopyTo(t.Context(), old, to, as, names, false)
	require.NoError(t, err)
	assert.False(t, copied, "what is there stays")
	copied, err = from.CopyTo(t.Context(), old, to, as, names, true)
	require.NoError(t, err)
	assert.True(t, copied)
	assert.Equal(t, int64(870), peekAnn(t, after).Limits()[0].Remaining, "unless it is to be replaced")
	copied, err = from.CopyTo(t.Context(), redisstore.Bucket{Policy: "old", Key: "bob"}, to, as, nil, true)
	require.NoError(t, err)
	assert.False(t, copied, "nothing is copied of a bucket that does not exist")
	client.Set(t.Context(), "broken:old:ann", "not a bucket", time.Minute)
	_, err = redisstore.New(client, redisstore.WithPrefix("broken:")).CopyTo(t.Context(), old, to, as, names, true)
	require.ErrorAs(t, err, new(*store.StateError), "what can't be read can't be renamed")
	require.NoError(t, client.Del(t.Context(), "broken:old:ann").Err())
}

func peekAnn(t *testing.T, l *core.Limiter) core.Result {
	t.Helper()
	res, err := l.Peek(t.Context(), "ann")
	require.NoError(t, err)
	return res
}
