package redisstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestAllLimitsShareOneRedisKey(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	store := redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout)
	var limits []core.Limit
	for n := range 10 {
		limits = append(limits, core.Limit{Capacity: 100, RefillRate: 1, RefillInterval: time.Duration(n+1) * time.Hour})
		l := limittest.Limiter(t, store, "policy-"+strconv.Itoa(n), limits...)
		limittest.Use(t, l, "user", 1)
		limittest.Use(t, l, "user", 1)
	}
	keys := client.Keys(t.Context(), prefix+"*").Val()
	assert.Len(t, keys, 10, "of 10 policies of 1 to 10 limits and one user")
	for _, key := range keys {
		assert.Positive(t, client.PTTL(t.Context(), key).Val(), "the TTL of %q", key)
	}
}

// appClient is a client of a type of the app's own.
type appClient struct{ redis.UniversalClient }

func TestLostScriptCacheFailsNoRequest(t *testing.T) {
	client := redistest.Start(t).Client(t) // its own: tests of other packages count the scripts that they send
	for _, c := range []redis.UniversalClient{client, appClient{client}} {
		l := limittest.Limiter(t, storeOn(c), "api", core.PerDay(20))
		for n := range 20 {
			require.NoError(t, client.ScriptFlush(t.Context()).Err())
			limittest.Use(t, l, "user", 1)
			require.EqualValues(t, 19-n, limittest.Left(t, l, "user"))
		}
	}
}

// written reports whether do writes key. It uses a transaction, which Redis
// aborts if a watched key was written.
func written(t *testing.T, client *redis.Client, key string, do func()) bool {
	t.Helper()
	err := client.Watch(t.Context(), func(tx *redis.Tx) error {
		do()
		_, err := tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Ping(t.Context()).Err() })
		return err
	}, key)
	if err != nil {
		require.ErrorIs(t, err, redis.TxFailedErr)
	}
	return err != nil
}

func TestRequestThatTakesNothingWritesNothing(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), "api", core.PerDay(10), core.PerHour(10))
	key := prefix + "api:user"
	ask := func(cost int64) func() {
		return func() {
			_, err := l.AllowN(t.Context(), "user", cost)
			require.NoError(t, err)
		}
	}
	for _, c := range []struct {
		rule string
		do   func()
		want bool
	}{
		{"a peek at an unused key", ask(0), false},
		{"a denial of an unused key", ask(11), false},
		{"a grant", ask(8), true},
		{"a look", ask(0), false},
		{"a denial", ask(5), false},
		{"a cost above the capacity", ask(11), false},
		{"another grant", ask(1), true},
		{"a refund", func() { _ = l.Refund(t.Context(), "user", 1) }, true},
		{"a reservation above the capacity", func() { _, _ = l.Reserve(t.Context(), "user", 11) }, false},
	} {
		before, _ := client.Get(t.Context(), key).Result()
		ttl := client.PExpireTime(t.Context(), key)
		if got := written(t, client, key, c.do); got != c.want {
			t.Errorf("%s: writes to the key: %v, want %v", c.rule, got, c.want)
		}
		after, _ := client.Get(t.Context(), key).Result()
		if !c.want && (before != after || ttl.Err() == nil && client.PExpireTime(t.Context(), key).Val() != ttl.Val()) {
			t.Errorf("%s changes the key's value or expiry: %x to %x", c.rule, before, after)
		}
	}
}
