package redisstore

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

var leasable1000 = bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 1000, RefillRate: 1, RefillInterval: time.Hour}, 1)})

func leaseRequest(key string) store.Request {
	return store.NewRequest("api", key, bucket.Request{Set: leasable1000, N: 1})
}

func TestWatchedKeysAreBounded(t *testing.T) {
	now := time.Now()
	s := leasesAround(store.NewMemory(core.WithClock(func() time.Time { return now })), 100)
	use := func(keys int) (watched int) {
		for i := range keys {
			_, err := s.Do(t.Context(), leaseRequest(now.String()+strconv.Itoa(i)))
			require.NoError(t, err)
		}
		for i := range s.shards {
			watched += len(s.shards[i].keys)
		}
		return watched
	}
	require.Equal(t, maxWatched, use(2*maxWatched), "of any number of keys, so many are watched")
	now = now.Add(time.Minute)
	assert.Less(t, use(1000), maxWatched-500, "each new key has old ones forgotten")
}

// Keys are found by a hash. The lease of another key with the same hash is not
// used.
func TestALeaseIsForDecisionsOnItsOwnBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its time does not pass, so the lease does not end
		s := leasesAround(store.NewMemory(), 100)
		buffer := []byte("mine")
		reused, other := leaseRequest(unsafe.String(&buffer[0], len(buffer))), leaseRequest("other")
		for range 13 {
			_, err := s.Do(t.Context(), reused)
			require.NoError(t, err)
		}
		copy(buffer, "____")
		mine := leaseRequest("mine")
		a, err := s.Do(t.Context(), mine)
		require.NoError(t, err)
		require.Equal(t, bucket.FromLease, a.Source)
		synctest.Wait()
		k := s.shards[mine.Hash()%shards].keys[mine.Hash()]
		left := k.left
		require.Positive(t, left, "premise: there is a lease")
		look := mine
		look.Dry = true
		_, err = s.Do(t.Context(), look)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, left, k.left, "a look takes nothing")
		s.shards[other.Hash()%shards].keys = map[uint64]*watchedKey{other.Hash(): k}
		a, err = s.Do(t.Context(), other)
		require.NoError(t, err)
		assert.Equal(t, bucket.FromStore, a.Source)
	})
}
