package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/breaker"
)

func ExampleNew() {
	// A store of your own that asks another machine, which is not there.
	away := &remote{MemoryStore: core.NewMemoryStore(), fail: func(context.Context) error { return errors.New("connection refused") }}
	store := breaker.New(away, 100*time.Millisecond, 2, time.Second)
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailOpen}))
	for range 3 {
		res, err := limiter.Allow(context.Background(), "user:42")
		fmt.Println(res.Allowed, errors.Is(res.Cause, core.ErrBreakerOpen), err)
	}
	// Output:
	// true false <nil>
	// true false <nil>
	// true true <nil>
}
