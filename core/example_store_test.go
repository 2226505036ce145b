package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
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
