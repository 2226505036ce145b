package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// keysOf returns the keys with a prefix. The prefix must not hold characters
// that are special in a pattern.
func keysOf(t testing.TB, client *redis.Client, prefix string) []string {
	t.Helper()
	var keys []string
	for it := client.Scan(context.Background(), 0, prefix+"*", 1000).Iterator(); ; {
		if !it.Next(context.Background()) {
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
			slices.Sort(keys)
			return slices.Compact(keys)
		}
		keys = append(keys, it.Val())
	}
}

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
	if keys := keysOf(t, client, prefix); len(keys) != 10 {
		t.Errorf("10 policies of 1 to 10 limits and one user have %d keys, want 10: %q", len(keys), keys)
	}
	for _, key := range keysOf(t, client, prefix) {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 {
			t.Errorf("key %q has no expiry: %v", key, ttl)
		}
	}
}

func TestLostScriptCacheFailsNoRequest(t *testing.T) {
	client := redistest.Start(t).Client(t) // its own: tests of other packages count the scripts that they send
	l := limittest.Limiter(t, storeOn(client), "api", core.PerDay(20))
	for n := range 20 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		res, err := l.Allow(t.Context(), "user")
		if err != nil || !res.Allowed || res.Source != core.FromStore || res.Remaining != int64(19-n) {
			t.Fatalf("after SCRIPT FLUSH: allowed %v by %v with %d left, %v; want allowed by the store with %d left",
				res.Allowed, res.Source, res.Remaining, err, 19-n)
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
	if err != nil && !errors.Is(err, redis.TxFailedErr) {
		t.Fatal(err)
	}
	return err != nil
}

func TestRequestThatTakesNothingWritesNothing(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), "api", core.PerDay(10), core.PerHour(10))
	key := prefix + "api:user"
	ask := func(cost int64) func() {
		return func() {
			if _, err := l.AllowN(t.Context(), "user", cost); err != nil {
				t.Fatal(err)
			}
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
