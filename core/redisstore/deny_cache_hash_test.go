package redisstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// The cache finds denials by a hash. A denial of another bucket with the same hash is no answer.
func TestDenialIsOnlyRepeatedToItsOwnBucket(t *testing.T) {
	p := bucket.NewPlan([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 1, RefillRate: 1, RefillInterval: time.Hour}, 1)})
	d := denyCache{horizon: time.Second}
	r := store.NewRequest("api", "mine", bucket.Request{Plan: p, N: 1})
	now := instantOf(time.Now())
	var a store.Answer
	d.keep(&r, a, 0, now, now)
	mine, other := of(&r), named("api", "other")
	known, _, _ := d.find(mine, p, 1, now)
	require.NotNil(t, known, "the premise: the denial is remembered")

	from, _ := d.shard(mine)
	to, _ := d.shard(other)
	to.entries = map[uint64]*denial{other.hash: from.entries[mine.hash]}
	known, _, _ = d.find(other, p, 1, now)
	assert.Nil(t, known, "a bucket gets the denial of another one with the same hash")
}
