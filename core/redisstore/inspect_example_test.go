package redisstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// onStandIn returns a store on a stand-in for Redis, and what ends both.
func onStandIn() (store *redisstore.Store, end func()) {
	server := core.Must(miniredis.Run())
	store = core.Must(redisstore.Open("redis://"+server.Addr(), redisstore.WithTimeout(time.Minute), core.WithLogger(slog.New(slog.DiscardHandler))))
	return store, func() {
		_ = store.Close()
		server.Close()
	}
}

// A tool of operators tells what a Peek does not: what is held, and which
// definition of a limit was used last.
func ExampleStore_Inspect() {
	store, end := onStandIn()
	defer end()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "exports", Limits: []core.Limit{core.InFlight(3)}, OnFailure: core.FailClosed}))
	ctx := context.Background()
	if _, err := limiter.Allow(ctx, "ada"); err != nil {
		panic(err)
	}
	found, err := store.Inspect(ctx, limiter.Name(), "ada", limiter.Limits("ada"))
	if err != nil {
		panic(err)
	}
	for _, limit := range found.Limits {
		fmt.Println(limit.Limit.Name, "has", limit.Held, "slot in use")
	}
	// Output: exports has 1 slot in use
}

// A key may have been used by a version with other limits than the policy.
func ExampleBucketState() {
	found := redisstore.BucketState{Others: 1, Newest: 1}
	if found.Newest > 0 {
		fmt.Println("the last decision had", found.Newest, "limit that the policy lacks")
	}
	// Output: the last decision had 1 limit that the policy lacks
}

// After a deployment by mistake, some buckets were last used under another
// definition.
func ExampleLimitState() {
	report := func(limit redisstore.LimitState) {
		if limit.Changed {
			fmt.Println(limit.Limit.Name, "was last used with a capacity of", limit.Capacity)
		}
	}
	report(redisstore.LimitState{Limit: core.PerDay(1000).WithName("daily"), Capacity: 100, Changed: true})
	// Output: daily was last used with a capacity of 100
}

// Without the policy it is known what was used, but not when the next token
// comes.
func ExampleStore_Records() {
	store, end := onStandIn()
	defer end()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "exports", Limits: []core.Limit{core.PerDay(10)}}))
	ctx := context.Background()
	if _, err := limiter.AllowN(ctx, "ada", 4); err != nil {
		panic(err)
	}
	records, _, err := store.Records(ctx, "exports", "ada")
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
	r := redisstore.Record{Name: "daily", Capacity: 10, Used: 12}
	fmt.Println(r.Name, "owes", r.Used-r.Capacity, "tokens")
	// Output: daily owes 2 tokens
}
