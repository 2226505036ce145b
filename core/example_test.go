package core_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// A limiter is a policy bound to a store. Call it with a key before you do the
// work.
func Example() {
	limiter, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name:   "mail",
		Limits: []core.Limit{core.PerHour(2)},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		res := core.Must(limiter.Allow(context.Background(), core.JoinKey("user", "ada")))
		fmt.Println(res.Allowed, res.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

func ExampleLimiter() {
	ctx := context.Background()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "export", Limits: []core.Limit{core.PerDay(10)},
	}))

	res, _ := limiter.AllowN(ctx, "tenant-7", 8) // 8 tokens or none
	fmt.Println("export of 8:", res.Allowed)
	res, _ = limiter.AllowN(ctx, "tenant-7", 3)
	fmt.Println("export of 3:", res.Allowed)

	_ = limiter.Refund(ctx, "tenant-7", 5) // 5 of the first were not needed
	res, _ = limiter.Peek(ctx, "tenant-7") // takes nothing
	fmt.Println("left:", res.Remaining)

	_ = limiter.Reset(ctx, "tenant-7")
	res, _ = limiter.Peek(ctx, "tenant-7")
	fmt.Println("after a reset:", res.Remaining)
	// Output:
	// export of 8: true
	// export of 3: false
	// left: 7
	// after a reset: 10
}

// Plans and tiers: other limits for some keys, in the buckets of one policy.
func ExampleLimiter_WithLimits() {
	ctx := context.Background()
	free := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(10)},
	}))
	paid := core.Must(free.WithLimits(core.PerMinute(600)))
	res, _ := free.Allow(ctx, "ada")
	fmt.Println("free:", res.Remaining)
	res, _ = paid.Allow(ctx, "grace")
	fmt.Println("paid:", res.Remaining)
	// Output:
	// free: 9
	// paid: 599
}

// A policy in shadow mode decides but denies no request. SetPolicy enforces it
// without a restart.
func ExampleLimiter_SetPolicy() {
	ctx := context.Background()
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}, Shadow: true}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), policy))

	for range 2 {
		res, _ := limiter.Allow(ctx, "ada")
		fmt.Println("allowed:", res.Allowed, "would be denied:", res.ShadowDenied)
	}

	policy.Shadow = false
	if err := limiter.SetPolicy(policy); err != nil {
		log.Fatal(err)
	}
	res, _ := limiter.Allow(ctx, "ada")
	fmt.Println("allowed:", res.Allowed, "would be denied:", res.ShadowDenied)
	// Output:
	// allowed: true would be denied: false
	// allowed: true would be denied: true
	// allowed: false would be denied: false
}

// A wait that would exceed the context's deadline fails at once and takes
// nothing.
func ExampleLimiter_WaitN() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "provider", Limits: []core.Limit{core.PerHour(5)},
	}))
	fmt.Println(limiter.WaitN(ctx, "smtp", 5))
	err := limiter.WaitN(ctx, "smtp", 1)
	fmt.Println(errors.Is(err, core.ErrDeadline))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_Reserve() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "provider", Limits: []core.Limit{core.PerSecond(1)},
	}))
	for range 3 {
		res := core.Must(limiter.Reserve(ctx, "smtp", 1))
		fmt.Println(res.Allowed, res.Delay()) // act after Delay, or give the tokens back by Undo
	}
	// Output:
	// true 0s
	// true 1s
	// true 2s
}

func ExampleResult() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "login", Limits: []core.Limit{core.PerMinute(2)},
	}))
	for range 3 {
		res, _ := limiter.Allow(ctx, "ada")
		fmt.Println(res.Allowed, "left", res.Remaining, "retry after", res.RetryAfter, "full after", res.ResetAfter)
	}
	// Output:
	// true left 1 retry after 0s full after 30s
	// true left 0 retry after 0s full after 1m0s
	// false left 0 retry after 30s full after 1m0s
}

// With several limits a request takes tokens from all or from none.
// Result.Limits has the state of each.
func ExampleLimitResult() {
	ctx := context.Background()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "sms",
		Limits: []core.Limit{
			core.PerHour(1).WithName("burst"),
			core.PerDay(100).WithName("daily"),
		},
	}))
	_, _ = limiter.Allow(ctx, "ada")
	res, _ := limiter.Allow(ctx, "ada")
	for _, limit := range res.Limits() {
		fmt.Println(limit.Limit.Name, limit.Remaining, "of", limit.Limit.Capacity, "violated:", limit.Violated)
	}
	// Output:
	// burst 0 of 1 violated: true
	// daily 99 of 100 violated: false
}

// Source is who decided: the store, or the fallback while the store can't
// answer.
func ExampleSource() {
	limiter := core.Must(core.NewLimiter(unreachable{}, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(10)}, OnFailure: core.FailLocal,
	}))
	res, err := limiter.Allow(context.Background(), "ada")
	fmt.Println(res.Allowed, res.Source, err)
	fmt.Println("cause:", res.Cause)
	// Output:
	// true fallback <nil>
	// cause: connection refused
}

func ExampleFailureMode() {
	for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
		limiter := core.Must(core.NewLimiter(unreachable{}, core.Policy{
			Name: "api", Limits: []core.Limit{core.PerDay(1)}, OnFailure: mode,
		}))
		_, _ = limiter.Allow(context.Background(), "ada")
		res, err := limiter.Allow(context.Background(), "ada")
		fmt.Println(mode, res.Allowed, errors.Is(err, core.ErrUnavailable))
	}
	// Output:
	// FailLocal false false
	// FailOpen true false
	// FailClosed false true
}

// unreachable is a store whose server does not answer.
type unreachable struct{}

func (unreachable) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errors.New("connection refused")
}

func (unreachable) Reset(context.Context, string, string) error {
	return errors.New("connection refused")
}

// Exceptions block a key, or give it other limits, beside the policy.
// redisstore reads them from Redis.
func ExampleExceptions() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(100)}}))
	err := limiter.SetExceptions(core.Exceptions{
		Overrides: map[string][]core.Limit{store.Key("user:ada"): {core.PerHour(1000)}},
		Blocked:   []string{store.Key("user:eve")},
	})
	ada, _ := limiter.Allow(context.Background(), "user:ada")
	eve, _ := limiter.Allow(context.Background(), "user:eve")
	fmt.Println(err, ada.Remaining, eve.Allowed)
	// Output: <nil> 999 false
}
