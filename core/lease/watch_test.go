package lease

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

var set = bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 1000, RefillRate: 1, RefillInterval: time.Hour}, 1)})

func request(key string) store.Request {
	return store.NewRequest("api", key, bucket.Request{Set: set, N: 1})
}

func TestWatchedKeysAreBounded(t *testing.T) {
	s := New(store.NewMemory(), 100)
	watched := func() (n int) {
		for i := range s.shards {
			n += len(s.shards[i].keys)
		}
		return n
	}
	for i := range 2 * maxWatched {
		_, err := s.Do(t.Context(), request(strconv.Itoa(i)))
		require.NoError(t, err)
		if i%1000 == 0 {
			require.LessOrEqual(t, watched(), maxWatched, "of any number of keys, so many are watched")
		}
	}
	for i := range s.shards {
		for _, k := range s.shards[i].keys {
			k.asked = k.asked.Add(-time.Minute)
		}
	}
	before := watched()
	for i := range 1000 {
		_, err := s.Do(t.Context(), request("new "+strconv.Itoa(i)))
		require.NoError(t, err)
	}
	assert.Less(t, watched(), before-500, "each new key has old ones forgotten")
}

// Keys are found by a hash. The lease of another key with the same hash is not
// used.
func TestALeaseIsOfItsOwnBucket(t *testing.T) {
	s := New(store.NewMemory(), 100)
	mine, other := request("mine"), request("other")
	for range 10 {
		_, err := s.Do(t.Context(), mine)
		require.NoError(t, err)
	}
	k := s.shards[mine.Hash()%shards].keys[mine.Hash()]
	require.Positive(t, k.left, "premise: there is a lease")
	s.shards[other.Hash()%shards].keys = map[uint64]*watchedKey{other.Hash(): k}
	a, err := s.Do(t.Context(), other)
	require.NoError(t, err)
	assert.Equal(t, bucket.FromStore, a.Source)
}
