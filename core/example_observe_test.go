package core_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// An observer counts decisions, here by policy and outcome.
func ExampleWithObserver() {
	counts := map[string]int{}
	count := func(_ context.Context, o core.Observation) {
		counts[o.Policy+" "+o.Outcome.String()]++ // a real one is called concurrently: lock, or use atomics
	}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(2)},
	}, core.WithObserver(count)))
	for range 5 {
		_, _ = limiter.Allow(context.Background(), "ada")
	}
	fmt.Println(counts)
	// Output: map[login allowed:2 login denied:3]
}

func ExampleObservation() {
	show := func(_ context.Context, o core.Observation) {
		fmt.Println(o.Policy, o.Limit, o.Outcome, o.Source, "cost", o.Cost)
	}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "export", Limits: []core.Limit{core.PerDay(10).WithName("daily")}, Shadow: true,
	}, core.WithObserver(show)))
	_, _ = limiter.AllowN(context.Background(), "ada", 8)
	_, _ = limiter.AllowN(context.Background(), "ada", 3)
	// Output:
	// export daily allowed store cost 8
	// export daily shadow-denied store cost 3
}

func ExampleOutcome() {
	fmt.Println(core.OutcomeAllowed, core.OutcomeDenied, core.OutcomeShadowDenied, core.OutcomeError)
	// Output: allowed denied shadow-denied error
}

func ExampleLimiterOption() {
	observe := func(_ context.Context, o core.Observation) { fmt.Println(o.Key, o.Outcome) }
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
	}, core.WithObserver(observe)))
	_, _ = limiter.Allow(context.Background(), core.JoinKey("user", "ada"))
	// Output: user:ada allowed
}

// Denials are logged at level debug, without keys.
func ExampleWithLogger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name: "login", Limits: []core.Limit{core.PerHour(1)},
	}, core.WithLogger(logger)))
	_, _ = limiter.Allow(context.Background(), "ada")
	_, _ = limiter.Allow(context.Background(), "ada")
	// Output:
	// level=DEBUG msg="ratelimit: denied" policy=login limit=login cost=1 retry_after=1h0m0s source=store
}

// A PolicyObserver receives the limits that are in force: those of the start,
// and those after each change.
func ExampleWithPolicyObserver() {
	show := func(now core.Policy, changes []string) { fmt.Println(now.Name, now.Limits[0].Capacity, changes) }
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerMinute(60)},
	}, core.WithPolicyObserver(show)))
	_ = limiter.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(100)}})
	// Output:
	// api 60 []
	// api 100 [limit "api": 100/min, was 60/min]
}
