package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// The store is a choice: limiters work alike on all of them. See redisstore.New
// for buckets that processes share.
func ExampleStore() {
	var store core.Store = core.NewMemoryStore()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	res, _ := limiter.Allow(context.Background(), "ada")
	fmt.Println(res.Remaining)
	// Output: 59
}

func ExampleMemoryStore() {
	store := core.NewMemoryStore()
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
	}))
	for _, user := range []string{"ada", "grace", "ada"} {
		_, _ = limiter.Allow(context.Background(), user)
	}
	fmt.Println(store.Len(), "keys")
	// Output: 2 keys
}

func ExampleWithMaxKeys() {
	store := core.NewMemoryStore(core.WithMaxKeys(2))
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
	}))
	for i := range 1000 {
		_, _ = limiter.Allow(context.Background(), fmt.Sprint("made up ", i))
	}
	fmt.Println(store.Len(), "keys")
	// Output: 2 keys
}

// With an injected clock a test sees a bucket refill without sleeping.
func ExampleWithClock() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "login", Limits: []core.Limit{core.PerMinute(1)},
	}))
	_, _ = limiter.Allow(ctx, "ada")
	res, _ := limiter.Allow(ctx, "ada")
	fmt.Println(res.Allowed)

	now = now.Add(res.RetryAfter)
	res, _ = limiter.Allow(ctx, "ada")
	fmt.Println(res.Allowed)
	// Output:
	// false
	// true
}

// A tool of operators tells what a Peek does not: what is held, and which
// definition of a limit was used last.
func ExampleInspection() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	store, err := redisstore.Open("redis://"+server.Addr(), redisstore.WithTimeout(time.Minute))
	if err != nil {
		panic(err)
	}
	defer store.Close()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(3)}, OnFailure: core.FailClosed}))
	ctx := context.Background()
	if _, err := limiter.Allow(ctx, "ada"); err != nil {
		panic(err)
	}
	found, err := limiter.Inspect(ctx, "ada")
	if err != nil {
		panic(err)
	}
	for _, limit := range found.Limits {
		fmt.Println(limit.Limit.Name, "has", limit.Held, "slot in use")
	}
	// Output: exports has 1 slot in use
}

// After a deployment by mistake, some buckets were last used under another
// definition.
func ExampleStoredLimit() {
	report := func(limit core.StoredLimit) {
		if limit.Changed {
			fmt.Println(limit.Limit.Name, "was last used with a capacity of", limit.Capacity)
		}
	}
	report(core.StoredLimit{Limit: core.PerDay(1000).WithName("daily"), Capacity: 100, Changed: true})
	// Output: daily was last used with a capacity of 100
}
