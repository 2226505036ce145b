package hashslot

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The slots are those that CLUSTER KEYSLOT of Redis 7 replies.
func TestOf(t *testing.T) {
	for key, want := range map[string]uint16{
		"": 0, "3560": 0, "123456789": 12739, "foo": 12182, "foo{bar}": 5061, "{foo}": 12182, "{}foo": 9500,
		"{user1000}.following": 3443, "{user1000}.followers": 3443, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "foo{bar}{zap}": 5061,
	} {
		assert.Equal(t, want, Of(key), "the slot of %q", key)
	}
}

func TestSet(t *testing.T) {
	var s Set
	s.Remove("foo")
	assert.False(t, s.Has("foo"), "a new set is empty")
	s.Add("foo")
	s.Add("{foo}bar")
	s.Add("3560")
	assert.True(t, s.Has("foo"))
	assert.True(t, s.Has("{foo}"), "the set has slots, not keys")
	assert.False(t, s.Has("bar"))
	s.Remove("foo")
	assert.False(t, s.Has("foo"), "a slot that came twice is there once")
	assert.True(t, s.Has("3560"))
	s.Remove("3560")
	assert.Zero(t, s.n.Load())
}
