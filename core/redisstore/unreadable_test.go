package redisstore_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// spoil makes the key of the policy "api" and user "bad" unreadable.
func spoil(t *testing.T, client *redis.Client, key, how string) {
	t.Helper()
	ctx := t.Context()
	client.Del(ctx, key)
	var err error
	switch how {
	case "a list":
		err = client.RPush(ctx, key, "x").Err()
	case "a hash":
		err = client.HSet(ctx, key, "tokens", "1").Err()
	default:
		err = client.Set(ctx, key, how, 0).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestUnreadableKeyAffectsNoOtherKey(t *testing.T) {
	unreadableKeyAffectsNoOther(t, redistest.Client(t))
}

func TestUnreadableKeyOnMiniredisAffectsNoOtherKey(t *testing.T) {
	_, client := onMiniredis(t)
	unreadableKeyAffectsNoOther(t, client)
}

func unreadableKeyAffectsNoOther(t *testing.T, client *redis.Client) {
	t.Helper()
	for _, how := range []string{"a list", "a hash", "42", "17 bytes of text!", strings.Repeat("\xff", 17), strings.Repeat("\x00\x01\x7f\xf8", 17)} {
		t.Run(how, func(t *testing.T) {
			prefix := redistest.Prefix()
			bad := prefix + "api:bad"
			l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), "api", core.PerDay(50))
			limittest.Use(t, l, "good", 1)
			spoil(t, client, bad, how)
			before := client.Dump(t.Context(), bad).Val()
			for range 40 {
				_, err := l.Allow(t.Context(), "bad")
				require.ErrorIs(t, err, core.ErrUnavailable)
				require.ErrorAs(t, err, new(*store.StateError))
			}
			assert.Equal(t, before, client.Dump(t.Context(), bad).Val(), "the store must not change a key it can't read")
			assert.EqualValues(t, -1, client.PTTL(t.Context(), bad).Val(), "nor its TTL")
			// The server works, so neither the breaker nor anything else may
			// keep other keys from it.
			limittest.Use(t, l, "good", 1)
			assert.EqualValues(t, 48, limittest.Left(t, l, "good"), "another key")
			require.NoError(t, l.Reset(t.Context(), "bad"), "Reset of an unreadable key")
			limittest.Use(t, l, "bad", 1)
			assert.EqualValues(t, 49, limittest.Left(t, l, "bad"), "the key after Reset")
		})
	}
}

// Whatever is in place of a bucket or its holds, the script must not fail as a
// whole: then other keys of the same call would have no decision, and the
// breaker would open.
func TestGarbageAmongHoldsAffectsNoOtherKey(t *testing.T) {
	client := redistest.Client(t)
	for name, spoil := range map[string]func(stored string) string{
		"zeros":        func(s string) string { return string(make([]byte, len(s))) },
		"ones":         func(s string) string { return strings.Repeat("\xff", len(s)) },
		"text":         func(s string) string { return strings.Repeat("x", len(s)) },
		"shorter":      func(s string) string { return s[:len(s)/2] },
		"empty":        func(string) string { return "" },
		"with an end":  func(s string) string { return s + "and more" },
		"a last byte":  func(s string) string { return s[:len(s)-1] + "\xff" },
		"its first 40": func(s string) string { return strings.Repeat("\xff", min(len(s), 40)) + s[min(len(s), 40):] },
		"twice":        func(s string) string { return s + s },
	} {
		t.Run(name, func(t *testing.T) {
			prefix, ctx := redistest.Prefix(), t.Context()
			buckets := redisstore.New(client, redisstore.WithPrefix(prefix), redisstore.WithDenyCache(0), longTimeout)
			l := core.Must(core.NewLimiter(buckets, core.Policy{
				Name: "api", Limits: []core.Limit{core.Per(5, time.Hour).WithMode(core.Stepped), core.InFlight(20)}, OnFailure: core.FailClosed}))
			bad := redisstore.RedisKey(prefix, "api", "bad")
			for round := range 2 { // what is spoilt: the holds, or the records
				require.NoError(t, l.Reset(ctx, "bad"))
				for range 3 {
					_, err := l.Allow(ctx, "bad")
					require.NoError(t, err)
				}
				if round == 0 {
					holds := redisstore.HoldsKey(prefix, bad)
					list, err := client.ZRangeWithScores(ctx, holds, 0, -2).Result() // the last one is no hold
					require.NoError(t, err)
					require.Len(t, list, 3, "the premise: slots are held")
					for _, z := range list {
						require.NoError(t, client.ZRem(ctx, holds, z.Member).Err())
						require.NoError(t, client.ZAdd(ctx, holds, redis.Z{Score: z.Score, Member: spoil(z.Member.(string))}).Err())
					}
				} else {
					require.NoError(t, client.Set(ctx, bad, spoil(client.Get(ctx, bad).Val()), time.Minute).Err())
				}
				var wg sync.WaitGroup // so that decisions share calls
				for i := range 40 {
					wg.Go(func() {
						err := beside(t, l, i%4)
						if state := (*store.StateError)(nil); err != nil {
							assert.ErrorAs(t, err, &state, "what a key holds is its own mistake")
							for _, part := range []string{"\x00", "\xff"} {
								assert.NotContains(t, err.Error(), part, "no bytes of the key are in a message")
							}
						}
					})
				}
				wg.Wait()
			}
			assert.Zero(t, buckets.Stats().Opened, "a key opens no breaker")
		})
	}
}

// beside decides for the bad key, or for a good one, and returns the error of
// the bad one.
func beside(t *testing.T, l *core.Limiter, what int) (err error) {
	ctx := t.Context()
	switch what {
	case 0:
		_, err = l.Allow(ctx, "bad")
	case 1:
		var res core.Result
		if res, err = l.AllowAtMost(ctx, "bad", 3); err == nil {
			assert.GreaterOrEqual(t, res.RetryAfter, time.Duration(0), "a delay is never negative")
			assert.GreaterOrEqual(t, res.ResetAfter, time.Duration(0), "a delay is never negative")
		}
	case 2:
		err = l.Refund(ctx, "bad", 1)
	case 3:
		res, err := l.Peek(ctx, "good")
		if assert.NoError(t, err, "another key has its decision") {
			assert.Equal(t, core.FromStore, res.Source, "by the store")
		}
	}
	return err
}
