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

// Tools show what stores have in place of a long key. It names the bucket and
// the limits of that key wherever a key is given.
func TestTheHashOfALongKeyNamesItsBucket(t *testing.T) {
	long := strings.Repeat("long", 100)
	hash := store.Key(long)
	assert.Equal(t, hash, store.Key(hash))
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerDay(10)}, Overrides: map[string][]core.Limit{long: {core.PerDay(100)}},
	}))
	limittest.Use(t, l, long, 5)
	assert.EqualValues(t, 95, limittest.Left(t, l, hash))
	require.NoError(t, l.Refund(t.Context(), hash, 1))
	require.NoError(t, l.Debit(t.Context(), hash, 2))
	assert.EqualValues(t, 94, limittest.Left(t, l, long))
	joint := core.Must(core.AllowTogether(t.Context(), core.Charge{Limiter: l, Key: long, Cost: 50}, core.Charge{Limiter: l, Key: hash, Cost: 50}))
	assert.False(t, joint.Allowed, "both are one charge of 100")
	require.NoError(t, l.Reset(t.Context(), hash))
	assert.EqualValues(t, 100, limittest.Left(t, l, long))
}
