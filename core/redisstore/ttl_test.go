package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// endOfTime is the last instant that stored state can hold, in the year 2255.
var endOfTime = time.UnixMicro(1<<53 - 1)

// expiry returns a key's TTL, and the server's time just before and after it
// was read.
func expiry(t testing.TB, client *redis.Client, key string) (ttl time.Duration, now time.Time) {
	t.Helper()
	ctx := context.Background()
	var left *redis.DurationCmd
	var clock *redis.TimeCmd
	_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		left, clock = p.PTTL(ctx, key), p.Time(ctx)
		return nil
	})
	require.NoError(t, err)
	return left.Val(), clock.Val()
}

// writeKey takes cost tokens of a key, reserves or refunds them. It reports
// whether the key must exist then.
func writeKey(l *core.Limiter, what, key string, cost int64) (res core.Result, wrote bool, err error) {
	ctx := context.Background()
	switch what {
	case "refund":
		if err = l.Refund(ctx, key, cost); err == nil {
			res, err = l.Peek(ctx, key)
		}
		return res, false, err // although the key, if it exists, has a new expiry
	case "reserve":
		r, err := l.Reserve(ctx, key, cost)
		if err != nil {
			return res, false, err
		}
		return r, r.Allowed && cost > 0, nil
	}
	res, err = l.AllowN(ctx, key, cost)
	return res, res.Allowed && cost > 0, err
}

// TestKeysExpireWhenTheirBucketsAreFull: a key that expires before its buckets
// are full loses what was taken. A key that expires late, or never, fills the
// server.
func TestKeysExpireWhenTheirBucketsAreFull(t *testing.T) {
	client := redistest.Client(t)
	prefix := redistest.Prefix()
	var simulations int
	rapid.Check(t, func(rt *rapid.T) {
		simulations++
		clock := limitdraw.Clock(rt)
		limits := limitdraw.Limits(limitdraw.Limit).Draw(rt, "limits")
		l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), core.WithClock(clock.Now), longTimeout), "api", limits...)
		key := strconv.Itoa(simulations)
		for range rapid.IntRange(1, 6).Draw(rt, "operations") {
			clock.Move(limitdraw.Move(limits, 0).Draw(rt, "move"))
			what := rapid.SampledFrom([]string{"take", "reserve", "refund", "back"}).Draw(rt, "operation")
			kept, before := expiry(t, client, prefix+"api:"+key)
			cost := int64(1)
			if what == "take" || what == "reserve" {
				cost = limitdraw.Cost(limits).Draw(rt, "cost")
			}
			if what == "back" {
				back := limitdraw.Back.Draw(rt, "back")
				clock.Move(-back)
				if kept > 0 { // as if Redis' clock was set back: the key expires at the same instant
					kept += back + time.Millisecond // what Redis says is rounded down
					client.PExpire(t.Context(), prefix+"api:"+key, kept)
				}
			}
			res, wrote, err := writeKey(l, what, key, cost)
			require.NoError(rt, err)
			ttl, after := expiry(t, client, prefix+"api:"+key)
			switch {
			case ttl == -1:
				rt.Fatalf("after %s the key has no expiry: %+v", what, limits)
			case ttl == -2 && after.Sub(before) > res.ResetAfter+time.Second-time.Millisecond:
				continue // the machine paused for longer than the key lives
			case ttl == -2 && wrote:
				rt.Fatalf("after %s the key does not exist: %+v", what, limits)
			case ttl == -2 || !wrote && what != "refund":
				continue
			}
			full := res.ResetAfter
			for _, l := range limits { // state holds the last step before the end of time
				full = min(full, endOfTime.Sub(clock.Now())-l.RefillInterval)
			}
			if expires := after.Add(ttl); expires.Before(before.Add(full).Truncate(time.Millisecond)) {
				rt.Fatalf("after %s the key expires in %v, before its buckets are full in %v: %+v", what, ttl, res.ResetAfter, limits)
			}
			if ttl > redisstore.LongestTTL(res.ResetAfter) && ttl > kept+time.Second { // most writes keep a TTL that is long enough
				rt.Fatalf("after %s the key expires in %v, long after its buckets are full in %v: %+v", what, ttl, res.ResetAfter, limits)
			}
		}
	})
}

func TestKeyOfTheFirstSecondsExpiresToo(t *testing.T) {
	client, keeper, prefix := redistest.Client(t), &redistest.Keeper{}, redistest.Prefix()
	client.AddHook(keeper)
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), core.WithClock(func() time.Time { return time.Unix(0, 0) }), longTimeout), "api", core.PerSecond(1))
	limittest.Use(t, l, "k", 1)
	if ttl, set := keeper.TTL(prefix + "api:k"); !set || ttl <= 0 {
		t.Errorf("the key's TTL is %v", ttl)
	}
}
