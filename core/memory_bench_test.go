package core_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// BenchmarkMemoryStore measures a decision with one key for all goroutines, and
// with many keys.
func BenchmarkMemoryStore(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(strconv.Itoa(n)+" keys", func(b *testing.B) {
			l := limittest.Limiter(b, core.NewMemoryStore(), "api", core.PerSecond(1_000_000).WithBurst(1_000_000_000))
			keys := make([]string, n)
			for i := range keys {
				keys[i] = "user:" + strconv.Itoa(i)
			}
			var denied, start atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				i := int(start.Add(7919))
				for pb.Next() {
					if i++; i >= n {
						i %= n
					}
					if res, err := l.Allow(ctx, keys[i]); err != nil || !res.Allowed {
						denied.Add(1)
					}
				}
			})
			if denied.Load() > 0 {
				b.Fatal("premise: every request is allowed")
			}
		})
	}
}
