package lease_test

import (
	"context"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/lease"
)

func ExampleNew() {
	// A MemoryStore stands for a store of your own that asks another machine.
	store := lease.New(core.NewMemoryStore(), 100)
	defer store.GiveBack()
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10_000)}}))
	leased := 0
	for range 1000 {
		res, err := limiter.Allow(context.Background(), "everybody")
		if err == nil && res.Source == core.FromLease {
			leased++
		}
	}
	fmt.Println("most decisions asked nobody:", leased > 500)
	// Output: most decisions asked nobody: true
}
