package storetest_test

import (
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
)

// A test of a store calls Run, here for the store in memory.
func ExampleRun() {
	var t *testing.T // that of the test
	test := func() {
		storetest.Run(t, func(t *testing.T, clock func() time.Time) core.Store {
			return core.NewMemoryStore(core.WithClock(clock))
		})
	}
	_ = test
}
