package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A record tells what was used and held without the policy, and names limits
// that had no name.
func TestRecordsTellWhatIsStoredWithoutThePolicy(t *testing.T) {
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	s := storeOn(client, core.WithClock(func() time.Time { return now }))
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{
		core.PerMinute(20), core.PerDay(10).WithName("daily"), core.InFlight(5), core.PerMonth(7),
	}}))
	records := func(key string) []redisstore.Record {
		t.Helper()
		list, at, err := s.Records(t.Context(), "api", key)
		require.NoError(t, err)
		assert.Equal(t, now, at.UTC())
		return list
	}
	assert.Empty(t, records("ann"), "nothing is kept of a full bucket")
	for range 3 {
		_, err := l.Allow(t.Context(), "ann")
		require.NoError(t, err)
	}
	require.NoError(t, l.Debit(t.Context(), "ann", 12))
	list := records("ann")
	require.Len(t, list, 4)
	for i, want := range []struct {
		name           string
		capacity, used int64
		held           int64
	}{{"api-1m", 20, 15, 0}, {"", 10, 15, 0}, {"api-at-once", 5, 3, 3}, {"api-month", 7, 15, 0}} {
		assert.Equal(t, want.name, list[i].Name)
		assert.Equal(t, want.capacity, list[i].Capacity)
		assert.Equal(t, want.used, list[i].Used, "used of %s", want.name)
		assert.Equal(t, want.held, list[i].Held, "held of %s", want.name)
		if want.name != "api-month" {
			assert.Equal(t, now, list[i].Written.UTC())
		}
	}
	for _, r := range list {
		assert.True(t, r.Full.After(now.Add(36*time.Hour)), "the longest takes so long, and a record does not tell when it is full")
	}
}
