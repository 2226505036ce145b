package core_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A call to a language model takes a request and tokens. How many tokens it
// took is known afterwards.
func ExampleUnits() {
	ctx := context.Background()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "llm", Limits: []core.Limit{
		core.PerHour(60).WithName("calls"),
		core.PerHour(1000).WithName("tokens").WithUnit("tokens"),
	}}))
	res, err := limiter.AllowUnits(ctx, "ann", core.Units{"tokens": 600})
	fmt.Println(res.Allowed, err)

	again, _ := limiter.AllowUnits(ctx, "ann", core.Units{"tokens": 600})
	fmt.Println(again.Allowed, core.Problem(again).ViolatedPolicies)

	err = res.Settle(ctx, core.Units{"tokens": 150}) // 450 come back
	again, _ = limiter.AllowUnits(ctx, "ann", core.Units{"tokens": 600})
	fmt.Println(again.Allowed, err)
	// Output:
	// true <nil>
	// false [tokens]
	// true <nil>
}

// A user and the organisation pay both, or none of them.
func ExampleCharge() {
	ctx, store := context.Background(), core.NewMemoryStore()
	user := core.Must(core.NewLimiter(store, core.Policy{Name: "user", Limits: []core.Limit{core.PerHour(20)}}))
	organisation := core.Must(core.NewLimiter(store, core.Policy{Name: "organisation", Limits: []core.Limit{core.PerHour(30)}}))
	for _, name := range []string{"ann", "bob"} {
		res, err := core.AllowTogether(ctx,
			core.Charge{Limiter: user, Key: name, Cost: 20},
			core.Charge{Limiter: organisation, Key: "acme", Cost: 20})
		fmt.Println(name, res.Allowed, err)
	}
	left, _ := user.Peek(ctx, "bob")
	fmt.Println("bob has", left.Remaining)
	// Output:
	// ann true <nil>
	// bob false <nil>
	// bob has 20
}

// Parts say which of the limiters lacked tokens.
func ExampleAllowTogether_denied() {
	ctx, store := context.Background(), core.NewMemoryStore()
	user := core.Must(core.NewLimiter(store, core.Policy{Name: "user", Limits: []core.Limit{core.PerHour(60)}}))
	everybody := core.Must(core.NewLimiter(store, core.Policy{Name: "everybody", Limits: []core.Limit{core.PerHour(1)}}))
	var res core.Result
	for range 2 {
		res, _ = core.AllowTogether(ctx, core.Charge{Limiter: user, Key: "ann"}, core.Charge{Limiter: everybody, Key: "all"})
	}
	fmt.Println(res.Allowed, res.RetryAfter.Round(time.Minute))
	for _, r := range res.Parts {
		fmt.Println(r.Allowed, core.Problem(r).ViolatedPolicies)
	}
	// Output:
	// false 1h0m0s
	// true []
	// false [everybody]
}

// 10,000 a month, by the calendar of a place, from the day on which a customer
// is billed.
func ExamplePerMonth() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err) // this system has no time zone data: import time/tzdata
	}
	fmt.Println(core.PerMonth(10_000).In(berlin))
	fmt.Println(core.PerMonth(10_000).In(berlin).Anchored(time.Date(2025, time.October, 31, 0, 0, 0, 0, berlin)))
	// Output:
	// 10000/month in Europe/Berlin
	// 10000/month in Europe/Berlin from 2025-10-31
}
