package chaos_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

const (
	// evictionKeys is how many keys each limit has.
	evictionKeys = 50
	// evictionMemory is for other data, which is written until four times as
	// much would not fit.
	evictionMemory = 8 << 20
	// evictionValue is the size of other values.
	evictionValue = 1000
	// evictionPace is how long a round takes at least, for the report: LRU
	// counts whole seconds.
	evictionPace = 40 * time.Millisecond
)

// A full server that evicts nothing forgets no limit: every key of a fast limit
// and of a quota admits at most MaxIn, beside other data that is written all
// the time. For the report all policies are measured.
func TestLimitsOnAFullServer(t *testing.T) {
	if *reportFile == "" {
		e := evict(t, "noeviction", time.Hour)
		assert.LessOrEqual(t, e.fast, e.most, "noeviction: a fast limit admits at most MaxIn")
		assert.LessOrEqual(t, max(e.quota, e.rested), e.most, "noeviction: a quota admits at most MaxIn")
		return
	}
	for _, policy := range []string{
		"noeviction", "volatile-ttl", "volatile-random", "volatile-lru", "volatile-lfu", "allkeys-random", "allkeys-lru", "allkeys-lfu",
	} {
		with, without := evict(t, policy, time.Hour), evict(t, policy, 0)
		for _, e := range []evicted{with, without} {
			if policy == "noeviction" {
				require.LessOrEqual(t, max(e.fast, e.quota, e.rested), e.most, "promise: a server that evicts nothing forgets no limit")
			}
		}
		tables.Lock()
		tables.evictions = append(tables.evictions, fmt.Sprintf("| `%s` | %d | %d | %d | %d | %d | %d |\n", policy,
			with.fast, with.quota, with.rested, without.fast, without.quota, without.rested))
		tables.Unlock()
	}
}

// evicted is how many requests were admitted, by the key that was admitted
// most.
type evicted struct {
	fast, quota int64 // of keys that are asked for all the time
	rested      int64 // of a quota's keys that are asked for at the begin and at the end
	most        int64 // MaxIn of the fast limit, and no less than that of the quota
}

// evict asks for keys of a fast limit and of a quota in turn, while other data
// with a TTL, or without any, is written to a server of little memory.
func evict(t *testing.T, policy string, ttl time.Duration) (e evicted) {
	t.Helper()
	ctx, server := context.Background(), redistest.Start(t)
	defer server.Kill()
	client := server.Client(t)
	require.NoError(t, client.ConfigSet(ctx, "maxmemory-policy", policy).Err())
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", fmt.Sprint(usedMemory(t, server)+evictionMemory)).Err())
	store := redisstore.New(client, patient, redisstore.WithDenyCache(0), redisstore.WithBreaker(math.MaxInt, time.Hour))
	limiter := func(name string, limit core.Limit) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{limit}, OnFailure: core.FailClosed}))
	}
	fast, quota := core.PerMinute(10), core.PerDay(10)
	limiters := []*core.Limiter{limiter("fast", fast), limiter("quota", quota), limiter("rested", quota)}
	admitted := make([][evictionKeys]int64, len(limiters))
	ask := func(rounds int, limiters ...*core.Limiter) {
		for range rounds {
			for i, l := range limiters {
				for k := range evictionKeys {
					if res, err := l.Allow(ctx, fmt.Sprintf("user-%d", k)); err == nil && res.Allowed {
						admitted[i][k]++
					}
				}
			}
		}
	}
	began := time.Now()
	ask(20, limiters...) // all are denied now
	value, written := strings.Repeat("x", evictionValue), 0
	for range 4 * evictionMemory / evictionValue / 200 {
		_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range 200 {
				written++
				p.Set(ctx, fmt.Sprintf("other:%d", written), value, ttl)
			}
			return nil
		}) // fails where nothing is evicted
		ask(1, limiters[:2]...)
		if *reportFile != "" {
			time.Sleep(time.Until(began.Add(time.Duration(written/200) * evictionPace)))
		}
	}
	ask(20, limiters...)
	e.most = fast.MaxIn(time.Since(began))
	for k := range evictionKeys {
		e.fast, e.quota, e.rested = max(e.fast, admitted[0][k]), max(e.quota, admitted[1][k]), max(e.rested, admitted[2][k])
	}
	t.Logf("%s, other data with a TTL of %v: at most %d, %d and %d admitted; MaxIn is %d", policy, ttl, e.fast, e.quota, e.rested, e.most)
	return e
}
