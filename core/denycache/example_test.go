package denycache_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denycache"
)

func ExampleNew() {
	// A MemoryStore stands for a store of your own that asks another machine.
	store := denycache.New(core.NewMemoryStore(), time.Second)
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}))
	for range 3 {
		res, err := limiter.Allow(context.Background(), "user:42")
		fmt.Println(res.Allowed, res.Source, err)
	}
	// Output:
	// true store <nil>
	// false store <nil>
	// false deny-cache <nil>
}
