package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Two exports run at once, and at most a hundred a day.
func ExampleInFlight() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(2), core.PerDay(100)}}))
	ctx := context.Background()
	for range 3 {
		res, err := limiter.Allow(ctx, "ann")
		if err != nil || !res.Allowed {
			fmt.Println("busy")
			continue
		}
		fmt.Println("at work")
		defer func() { _ = res.Release(ctx) }()
	}
	// Output:
	// at work
	// at work
	// busy
}

func ExampleResult_Release() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1)}}))
	ctx := context.Background()
	export := func() {
		res, err := limiter.Allow(ctx, "ann")
		if err != nil || !res.Allowed {
			return
		}
		defer func() { _ = res.Release(ctx) }() // whatever happens below
		fmt.Println("exported")
	}
	export()
	export()
	// Output:
	// exported
	// exported
}

// Work that takes longer than MaxHold says in time that it goes on.
func ExampleResult_Hold() {
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "streams", Limits: []core.Limit{core.InFlight(1)}}))
	ctx := context.Background()
	stream, _ := limiter.Allow(ctx, "ann")
	for range 3 {
		now = now.Add(40 * time.Second)
		fmt.Println(stream.Hold(ctx))
	}
	now = now.Add(2 * time.Minute) // too long
	_, _ = limiter.Allow(ctx, "ann")
	fmt.Println(stream.Hold(ctx))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// ratelimit: the slots were held for too long, and others have them (RL618)
}

// A process that dies releases nothing. After MaxHold its slot is free.
func ExampleLimit_WithMaxHold() {
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1).WithMaxHold(2 * time.Minute)}}))
	ctx := context.Background()
	died, _ := limiter.Allow(ctx, "ann")
	next, _ := limiter.Allow(ctx, "ann")
	fmt.Println(died.Allowed, next.Allowed, next.RetryAfter)
	now = now.Add(next.RetryAfter)
	next, _ = limiter.Allow(ctx, "ann")
	fmt.Println(next.Allowed)
	// Output:
	// true false 2m0s
	// true
}

// An estimate that nobody settles, because the process died, comes back.
func ExampleLimit_WithMaxHold_estimate() {
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	budget := core.PerMonth(50_000).WithUnit("tokens").WithMaxHold(10 * time.Minute)
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "budget", Limits: []core.Limit{budget}}))
	ctx := context.Background()
	settled, _ := limiter.AllowUnits(ctx, "ann", core.Units{"tokens": 1000, core.Requests: 0})
	_ = settled.Settle(ctx, core.Units{"tokens": 840})
	died, _ := limiter.AllowUnits(ctx, "ann", core.Units{"tokens": 1000, core.Requests: 0})
	fmt.Println(died.Remaining)
	now = now.Add(11 * time.Minute)
	left, _ := limiter.Peek(ctx, "ann")
	fmt.Println(left.Remaining)
	// Output:
	// 48160
	// 49160
}

func ExampleLimiter_Acquire() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(1)}}))
	ctx := context.Background()
	first, _ := limiter.Acquire(ctx, "ann")
	time.AfterFunc(10*time.Millisecond, func() {
		fmt.Println("the first is done")
		_ = first.Release(ctx)
	})
	second, err := limiter.Acquire(ctx, "ann") // waits
	if err != nil {
		return // ctx has ended
	}
	fmt.Println("the second is at work")
	_ = second.Release(ctx)
	// Output:
	// the first is done
	// the second is at work
}
