package redisstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Stores with different prefixes share no bucket, also if one prefix begins
// with the other and a policy is called like the rest.
func TestPrefixesShareNoBucket(t *testing.T) {
	client, app := redistest.Client(t), redistest.Prefix()
	for _, b := range []struct{ prefix, policy, key string }{
		{app, "v2", "login:k"}, {app + "v2:", "login", "k"}, {app + "v2", "login", "k"}, {app + "v2:login:", "k", "k"}, {app, "v2", "%:login:k"},
	} {
		l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(b.prefix), longTimeout), b.policy, core.PerDay(1))
		res, err := l.Allow(t.Context(), b.key)
		require.NoError(t, err)
		require.True(t, res.Allowed, "the bucket of %q was used by nobody else", b)
	}
}
