package redisstore

import (
	"testing"

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
