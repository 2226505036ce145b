package denycache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// The cache finds denials by a hash. A denial of another bucket with the same
// hash is no answer.
func TestDenialIsOnlyRepeatedToItsOwnBucket(t *testing.T) {
	p := bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 1, RefillRate: 1, RefillInterval: time.Hour}, 1)})
	d := cache{horizon: time.Second}
	r := store.NewRequest("api", "mine", bucket.Request{Set: p, N: 1})
	now := instant(time.Now().UnixNano())
	var a store.Answer
	q := store.NewRequest("api", "other", r.Request)
	d.keep(&r, &a, 0, now, now)
	known, _ := d.repeat(&r, &a, now)
	require.True(t, known, "the premise: the denial is remembered")

	from, _ := d.shard(r.Hash())
	to, _ := d.shard(q.Hash())
	to.entries = map[uint64]*denial{q.Hash(): from.entries[r.Hash()]}
	known, _ = d.repeat(&q, &a, now)
	assert.False(t, known, "a bucket gets the denial of another one with the same hash")
}
