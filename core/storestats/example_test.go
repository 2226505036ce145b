package storestats_test

import (
	"fmt"

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

func Example() {
	fmt.Println(idle{}.Stats().Decisions)
	// Output: 0
}
