package core_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

func ExampleLimit() {
	limit := core.Limit{Capacity: 17, RefillRate: 17, RefillInterval: 30 * time.Second}
	fmt.Println(limit.MaxIn(0), limit.MaxIn(30*time.Second), limit.MaxIn(time.Hour))
	// Output: 17 34 2057
}

// A window can hold a full bucket and its refill, so 100 a minute are 80 a
// minute and a burst of 20.
func ExampleLimit_MaxIn() {
	fmt.Println(core.PerMinute(100).MaxIn(time.Minute))
	fmt.Println(core.PerMinute(80).WithBurst(20).MaxIn(time.Minute))
	// Output:
	// 200
	// 100
}

// PerSecond and its siblings take any number type.
func ExamplePer() {
	var configured uint16 = 25
	a, b, c := core.PerSecond(configured), core.PerMinute(0.5), core.PerHour(1_000)
	fmt.Println(a.Capacity, a.RefillRate, a.RefillInterval)
	fmt.Println(b.Capacity, b.RefillRate, b.RefillInterval)
	fmt.Println(c.Capacity, c.RefillRate, c.RefillInterval)
	// Output:
	// 25 25 1s
	// 1 0.5 1m0s
	// 1000 1000 1h0m0s
}

// A bucket of 60 a minute is emptied at 12:00:30 and looked at every 15
// seconds.
func ExampleMode() {
	ctx := context.Background()
	for _, mode := range []core.Mode{core.Continuous, core.Stepped, core.Aligned} {
		now := time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC)
		store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
		limiter := core.Must(core.NewLimiter(store, core.Policy{
			Name: "api", Limits: []core.Limit{core.PerMinute(60).WithMode(mode)},
		}))
		_, _ = limiter.AllowN(ctx, "ada", 60)
		fmt.Printf("%-10v", mode)
		for range 4 {
			now = now.Add(15 * time.Second)
			res, _ := limiter.Peek(ctx, "ada")
			fmt.Printf(" %2d", res.Remaining)
		}
		fmt.Println()
	}
	// Output:
	// Continuous 15 30 45 60
	// Stepped     0  0  0 60
	// Aligned     0 60 60 60
}

func ExamplePolicy() {
	policy := core.Policy{
		Name: "search",
		Limits: []core.Limit{
			core.PerSecond(10).WithBurst(30),
			core.PerDay(10_000).WithName("daily").WithMode(core.Aligned),
		},
		OnFailure:  core.FailLocal,
		LocalShare: 0.25, // 4 replicas: each grants a quarter while Redis is away
		Headers:    core.HeadersDraft8,
	}
	limiter, err := core.NewLimiter(core.NewMemoryStore(), policy)
	if err != nil {
		panic(err)
	}
	res, _ := limiter.AllowN(context.Background(), "ada", 5)
	for _, limit := range res.Limits() {
		fmt.Println(limit.Limit.Name, limit.Remaining)
	}
	// Output:
	// search-1s 25
	// daily 9995
}

// Constructors report every mistake at once.
func ExampleConfigError() {
	_, err := core.NewLimiter(core.NewMemoryStore(core.WithMaxKeys(0)), core.Policy{
		Limits: []core.Limit{{Capacity: 10, RefillInterval: time.Second}},
	})
	fmt.Println(err)

	if mistake, ok := errors.AsType[*core.ConfigError](err); ok {
		fmt.Println("the first:", mistake.Field)
	}
	// Output:
	// ratelimit: policy "": Policy.Name: "" is required (RL101)
	// WithMaxKeys: 0 must be at least 1 (RL304)
	// Policy.Limits[0].RefillRate: 0 must be a number above 0 (tokens every RefillInterval) (RL103)
	// the first: Policy.Name
}
