package redisstore

import (
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

var oneAnHour = bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 1, RefillRate: 1, RefillInterval: time.Hour}, 1)})

// deny has a key denied: n is more than the capacity.
func deny(t *testing.T, s *denyCache, key string, n int64, source bucket.Source) store.Request {
	t.Helper()
	r := store.NewRequest("api", key, bucket.Request{Set: oneAnHour, N: n})
	a, err := s.Do(t.Context(), r)
	require.NoError(t, err)
	require.False(t, a.Allowed)
	require.Equal(t, source, a.Source)
	return r
}

// However many keys are denied, a key that is pushed out costs one call, and is
// back.
func TestDenialsAreBounded(t *testing.T) {
	s := denyCacheAround(store.NewMemory(), time.Hour)
	for i := range 2 * maxDenials {
		deny(t, s, strconv.Itoa(i), 2, bucket.FromStore)
	}
	deny(t, s, "victim", 2, bucket.FromStore)
	deny(t, s, "victim", 2, bucket.FromDenyCache)
	for n := range int64(1000) { // of each key only the last cost is remembered
		deny(t, s, "victim", 3+n, bucket.FromStore)
	}
	n := 0
	for i := range s.shards {
		n += len(s.shards[i].denials)
	}
	assert.Equal(t, maxDenials, n)
}

// Denials are found by a hash. That of another key with the same hash is not
// repeated.
func TestADenialIsOfItsOwnBucket(t *testing.T) {
	s := denyCacheAround(store.NewMemory(), time.Hour)
	mine, other := deny(t, s, "mine", 2, bucket.FromStore), deny(t, s, "other", 2, bucket.FromStore)
	s.shard(&other).denials[other.Hash()] = s.shard(&mine).denials[mine.Hash()]
	deny(t, s, "other", 2, bucket.FromStore)
	buffer := []byte("reused")
	deny(t, s, unsafe.String(&buffer[0], len(buffer)), 2, bucket.FromStore)
	copy(buffer, "______")
	deny(t, s, "reused", 2, bucket.FromDenyCache)
}
