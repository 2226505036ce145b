package core_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
)

// BenchmarkMemoryHolds measures decisions on one key with many reservations.
func BenchmarkMemoryHolds(b *testing.B) {
	for _, holds := range []int{10, 1000, 2000} {
		l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(60).WithBurst(10_000)}})
		if err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		if _, err := l.AllowN(ctx, "k", 10_000); err != nil {
			b.Fatal(err)
		}
		var queue []*core.Result
		reserve := func() {
			r, err := l.Reserve(ctx, "k", 1)
			if err != nil || !r.Allowed {
				b.Fatalf("premise: a reservation: %v", err)
			}
			queue = append(queue, &r)
		}
		for range holds {
			reserve()
		}
		b.Run(fmt.Sprintf("Peek/%d", holds), func(b *testing.B) {
			for b.Loop() {
				if res, err := l.Peek(ctx, "k"); err != nil || res.Remaining > 0 {
					b.Fatalf("premise: nothing is left: %v", err)
				}
			}
		})
		b.Run(fmt.Sprintf("CancelAndReserve/%d", holds), func(b *testing.B) {
			for b.Loop() {
				at := rand.IntN(len(queue))
				if err := queue[at].Undo(ctx); err != nil {
					b.Fatal(err)
				}
				queue[at] = queue[len(queue)-1]
				queue = queue[:len(queue)-1]
				reserve()
			}
		})
	}
}
