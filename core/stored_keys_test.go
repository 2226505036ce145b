package core_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// A limiter of stored keys has the same buckets and limits as its source, by
// the keys that the store has.
func TestStoredKeysNameTheSameBuckets(t *testing.T) {
	long := strings.Repeat("long", 100)
	keys := []string{"ann", long, store.Key(long), "sha256:x", strings.Repeat("k", 128)}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerDay(10)}, Overrides: map[string][]core.Limit{long: {core.PerDay(100)}},
	}))
	stored := l.WithStoredKeys()
	for i, key := range keys {
		limittest.Use(t, l, key, int64(i+1))
		assert.Equal(t, limittest.Left(t, l, key), limittest.Left(t, stored, store.Key(key)), "%.20s has one bucket", key)
		require.NoError(t, stored.Refund(t.Context(), store.Key(key), 1))
		require.NoError(t, stored.Debit(t.Context(), store.Key(key), 2))
		want := int64(10)
		if key == long {
			want = 100 // its override
		}
		assert.Equal(t, want-int64(i+2), limittest.Left(t, l, key), "what comes back and what is taken by the stored key is the key's")
		require.NoError(t, stored.Reset(t.Context(), store.Key(key)))
		assert.Equal(t, want, limittest.Left(t, l, key), "a reset of the stored key is the key's")
	}
	assert.NotEqual(t, store.Key(long), store.Key(store.Key(long)), "a client that sends a hash gets no other's bucket")
}
