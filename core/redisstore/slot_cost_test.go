package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// inUse takes n slots of a key.
func inUse(t *testing.T, l *core.Limiter, key string, n int) (list []core.Result) {
	t.Helper()
	for range n {
		res, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
		require.True(t, res.Allowed)
		list = append(list, res)
	}
	return list
}

// slotCosts are the medians of the server's time for a decision on a key with so many slots in use, by operation, and the
// bytes that such a key takes.
func slotCosts(t *testing.T, used []int, rounds int) (costs map[string][]time.Duration, bytes []int64) {
	t.Helper()
	log := newServerLog(t)
	ctx := context.Background()
	store := New(log.client, WithPrefix(log.prefix), WithTimeout(time.Minute))
	limiters, results := make([]*core.Limiter, len(used)), make([][]core.Result, len(used))
	for i, n := range used {
		policy := core.Policy{Name: "api", Limits: []core.Limit{core.InFlight(n + 1).WithMaxHold(time.Hour)}, OnFailure: core.FailClosed}
		limiters[i] = core.Must(core.NewLimiter(store, policy))
		results[i] = inUse(t, limiters[i], fmt.Sprint(n), n)
		bytes = append(bytes, log.client.MemoryUsage(ctx, log.prefix+"api:"+fmt.Sprint(n), 0).Val())
	}
	all := make(map[string][][]time.Duration)
	for range rounds {
		for i, n := range used {
			key, l := fmt.Sprint(n), limiters[i]
			any := &results[i][rand.IntN(n)]
			for _, op := range []struct {
				name string
				do   func() error
			}{
				{"peek", func() error { _, err := l.Peek(ctx, key); return err }},
				{"take", func() error {
					res, err := l.Allow(ctx, key)
					results[i] = append(results[i], res)
					return err
				}},
				{"deny", func() error { _, err := l.Allow(ctx, key); return err }},
				{"hold", func() error { return any.Hold(ctx) }},
				{"release", func() error {
					at := rand.IntN(n + 1)
					res := results[i][at]
					results[i] = slices.Delete(results[i], at, at+1)
					return res.Release(ctx)
				}},
			} {
				if all[op.name] == nil {
					all[op.name] = make([][]time.Duration, len(used))
				}
				all[op.name][i] = append(all[op.name][i], log.took(key, op.do))
			}
		}
	}
	return medians(all), bytes
}

// TestSlotsCostLittle compares decisions on a key with many slots in use to those on one with few. -v shows the table of
// docs/choosing-limits.md.
func TestSlotsCostLittle(t *testing.T) {
	used := []int{1, 10, 100, 999}
	costs, bytes := slotCosts(t, used, 40)
	for _, name := range []string{"peek", "take", "deny", "hold", "release"} {
		t.Logf("%8s with %v slots in use: %v", name, used, costs[name])
		if few, many := costs[name][1], costs[name][len(used)-1]; many > 12*few {
			t.Errorf("%s takes the server %v with 999 slots in use and %v with 10: a decision must not read each of them", name, many, few)
		}
	}
	t.Logf("%8s with %v slots in use: %v", "bytes", used, bytes)
	if perSlot := float64(bytes[len(used)-1]-bytes[0]) / 998; perSlot > 64 {
		t.Errorf("a slot in use takes %.0f bytes", perSlot)
	}
}
