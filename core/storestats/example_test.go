package storestats_test

import (
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

func ExampleBreakerState() {
	fmt.Println(storestats.BreakerClosed, storestats.BreakerHalfOpen, storestats.BreakerOpen)
	// Output: closed half-open open
}
