package redisstore

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// formerHolds is what the former layout stored at 1,750,000,000.25 s of a limit of 60 a minute and a burst of 5, behind which it
// had a record for each hold: a lease of 2 tokens until 2 s, and reservations of 1, 2 and 1 that are due at 1, 3 and 4 s.
const formerHolds = "00000001f533c00e00000000000006379da05f309006379da0e4b44040a0000049742401" +
	"0000000100003ff000000000000006379da06aa240000000000000650000000000000000" +
	"000000010000400000000000000006379da079e480100000000000090000000000000000" +
	"000000010000400000000000000006379da08926c0000000000000660000000000000000" +
	"0000000100003ff000000000000006379da0986900000000000000670000000000000000"

// State of the former layout is read as it was, and is in blocks from the next write on.
func TestHoldsOfTheFormerLayout(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	client.AddHook(&redistest.Keeper{})
	now := time.UnixMicro(1_750_000_000_250_000)
	stores := map[string]core.Store{
		"script": New(client, WithPrefix(prefix), core.WithClock(func() time.Time { return now }), WithTimeout(time.Minute), WithDenyCache(0)),
	}
	state, err := hex.DecodeString(formerHolds)
	require.NoError(t, err)
	require.NoError(t, client.Set(t.Context(), prefix+"api:k", state, time.Minute).Err())
	plan := planOf(core.PerMinute(60).WithBurst(5))
	seconds := func(at int64) string { return fmt.Sprint(time.Duration(at-1_750_000_000_000_000) * time.Microsecond) }

	for _, step := range []struct {
		request bucket.Request
		allowed bool
		units   int64  // of the level, 1,000,000 a token
		due     string // after the 1,750,000,000th second
	}{
		{bucket.Request{Action: bucket.Take, N: 1}, false, -3_750_000, ""},
		{bucket.Request{Action: bucket.Reserve, N: 1, More: 1e9, Ticket: 104}, true, -4_750_000, "5s"},
		{bucket.Request{Action: bucket.End, Ends: bucket.Ending{Ticket: 102, At: 1_750_000_003_000_000, Back: 2}}, true, -2_750_000, ""},
		{bucket.Request{Action: bucket.End, Ends: bucket.Ending{Ticket: bucket.FirstLease + 9, At: 1_750_000_002_000_000, Back: 1}}, true, -1_750_000, ""},
		{bucket.Request{Action: bucket.End, Ends: bucket.Ending{Ticket: 99, At: 1_750_000_002_000_000, Back: 1}}, true, -1_750_000, ""},
	} {
		r := step.request
		r.Plan = plan
		var reference store.Answer
		next, _, err := r.DecideState(&reference, state, now.UnixMicro())
		require.NoError(t, err)
		got, err := stores["script"].Do(t.Context(), store.NewRequest("api", "k", r))
		require.NoError(t, err)
		for by, a := range map[string]store.Answer{"the script": got, "the reference implementation": reference} {
			assert.Equal(t, step.allowed, a.Allowed, "%+v by %s", r, by)
			assert.Equal(t, step.units, a.Levels.At(0).Units, "%+v by %s", r, by)
			if step.due != "" {
				assert.Equal(t, step.due, seconds(a.Due), "%+v by %s", r, by)
			}
		}
		if next != nil {
			state = next
			kind, err := client.Type(t.Context(), prefix+"api:k").Result()
			require.NoError(t, err)
			require.Equal(t, "hash", kind, "a key with holds is a hash once it was written")
		}
		require.Equal(t, string(state), StoredState(t, client, prefix+"api:k"))
	}
}
