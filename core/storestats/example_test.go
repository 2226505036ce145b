package storestats_test

import (
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

func ExampleBreakerState() {
	fmt.Println(storestats.BreakerClosed, storestats.BreakerHalfOpen, storestats.BreakerOpen)
	// Output: closed half-open open
}

// idle is a store that nobody has asked yet.
type idle struct{}

func (idle) Stats() storestats.Stats { return storestats.Stats{} }

func ExampleSource() {
	var store storestats.Source = idle{} // such as a redisstore.Store
	fmt.Println(store.Stats().Breaker)
	// Output: closed
}

func ExampleStats() {
	stats := storestats.Stats{Calls: 100, Decisions: 1200}
	fmt.Println(stats.Decisions/stats.Calls, "decisions a call")
	// Output: 12 decisions a call
}

func ExampleExceptions() {
	var stats storestats.Stats // such as of a redisstore.Store that follows exceptions
	stats.Exceptions = []storestats.Exceptions{{Policy: "api", Blocks: 3, Age: time.Second}}
	for _, e := range stats.Exceptions {
		fmt.Println(e.Policy, "blocks", e.Blocks, "keys, as of", e.Age, "ago")
	}
	// Output: api blocks 3 keys, as of 1s ago
}

func Example() {
	fmt.Println(idle{}.Stats().Decisions)
	// Output: 0
}
