package redisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// The slots are those that CLUSTER KEYSLOT of Redis 7 replies.
func TestHashSlot(t *testing.T) {
	for key, want := range map[string]uint16{
		"": 0, "3560": 0, "123456789": 12739, "foo": 12182, "foo{bar}": 5061, "{foo}": 12182, "{}foo": 9500,
		"{user1000}.following": 3443, "{user1000}.followers": 3443, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "foo{bar}{zap}": 5061,
	} {
		assert.Equal(t, want, hashSlot(key), "the slot of %q", key)
	}
}

// A script has both keys of a bucket, so they need one slot, whatever the prefix,
// the policy and the key.
func TestHoldsAreInTheSlotOfTheirBucket(t *testing.T) {
	for prefix, taken := range map[string]bool{
		"ratelimit:": true, "": true, "a:b:": true, "{limits}:": true, "x{limits}:": true, "}{x}:": true, "{{x}:": true,
		"{}:": false, "}{": false, "a}b:": false, "a{b:": false, "{}{x}:": false,
	} {
		s := New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), WithPrefix(prefix))
		if assert.Equal(t, taken, s.mistaken() == nil, "%q can be a prefix", prefix); !taken {
			assert.ErrorContains(t, s.mistaken(), "must have no braces, or a hash tag such as {limits}")
			continue
		}
		for _, policy := range []string{"api", "a:b{c}%", "{api}", "%"} {
			for _, key := range []string{"ann", "{ann}", "}{", "%7B"} {
				state := redisKey(s.batches.prefix, policy, key)
				holds := holdsKey(s.batches.prefix, state)
				assert.Equal(t, hashSlot(state), hashSlot(holds), "the slots of %q and %q", state, holds)
				assert.True(t, strings.HasPrefix(holds, prefix), "an ACL that knows the prefix suffices for %q", holds)
			}
		}
	}
}

func TestHashSlots(t *testing.T) {
	var s hashSlots
	s.remove("foo")
	assert.False(t, s.has("foo"), "a new set is empty")
	s.add("foo")
	s.add("{foo}bar")
	s.add("3560")
	assert.True(t, s.has("foo"))
	assert.True(t, s.has("{foo}"), "the set has slots, not keys")
	assert.False(t, s.has("bar"))
	s.remove("foo")
	assert.False(t, s.has("foo"), "a slot that came twice is there once")
	assert.True(t, s.has("3560"))
	s.remove("3560")
	assert.Zero(t, s.n.Load())
}
