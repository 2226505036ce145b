package inspect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/inspect"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// A tool of operators tells what a Peek does not: what is held, and which
// definition of a limit was used last.
func ExampleKey() {
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
	found, err := inspect.Key(ctx, limiter, "ada")
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
func ExampleLimit() {
	report := func(limit inspect.Limit) {
		if limit.Changed {
			fmt.Println(limit.Limit.Name, "was last used with a capacity of", limit.Capacity)
		}
	}
	report(inspect.Limit{Limit: core.PerDay(1000).WithName("daily"), Capacity: 100, Changed: true})
	// Output: daily was last used with a capacity of 100
}

// Without the policy it is known what was used, but not when the next token
// comes.
func ExampleRecords() {
	store := core.NewMemoryStore()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "exports", Limits: []core.Limit{core.PerDay(10)}}))
	ctx := context.Background()
	if _, err := limiter.AllowN(ctx, "ada", 4); err != nil {
		panic(err)
	}
	records, _, err := inspect.Records(ctx, store, "exports", "ada")
	if err != nil {
		panic(err)
	}
	for _, r := range records {
		fmt.Println(r.Name, "has used", r.Used, "of", r.Capacity)
	}
	// Output: exports has used 4 of 10
}

// Used may be more than Capacity: the limit is in debt.
func ExampleRecord() {
	r := inspect.Record{Name: "daily", Capacity: 10, Used: 12}
	fmt.Println(r.Name, "owes", r.Used-r.Capacity, "tokens")
	// Output: daily owes 2 tokens
}
