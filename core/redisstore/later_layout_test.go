package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A later layout begins with four zero bytes, whatever follows. An error that
// calls it no state would have its key reset.
func TestStateOfALaterVersionIsCalledThat(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	s := New(client, WithPrefix(prefix), WithTimeout(time.Minute))
	set := setOf(core.PerMinute(60))
	for _, later := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x00\x02 of another kind", "\x00\x00\x00\x00" + string(make([]byte, 3*bucket.RecordSize-4))} {
		for _, action := range []bucket.Action{bucket.Take, bucket.Refund, bucket.Reserve} {
			r := bucket.Request{Set: set, Action: action, N: 1, More: 1e6, Ticket: 7}
			_, _, err := r.DecideState(&bucket.Answer{}, []byte(later), 17e14)
			require.ErrorIs(t, err, bucket.ErrLater, "%x by Go", later)
			for kind, write := range map[string]func() error{
				"string": func() error { return client.Set(t.Context(), prefix+"api:k", later, time.Minute).Err() },
				"hash":   func() error { return client.HSet(t.Context(), prefix+"api:k", "", later).Err() },
			} {
				require.NoError(t, client.Del(t.Context(), prefix+"api:k").Err())
				require.NoError(t, write())
				_, err = s.Do(t.Context(), store.NewRequest("api", "k", r))
				require.EqualError(t, err, `policy "api": stored state: was written by a later version of this library (RL613)`, "%x in a %s by the script", later, kind)
			}
		}
	}
}
