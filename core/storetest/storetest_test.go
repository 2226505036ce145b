package storetest

import (
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

func TestSmallestStoreConforms(t *testing.T) {
	Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return &reference{now: clock, states: map[[2]string][]byte{}}
	})
}

func TestMemoryConforms(t *testing.T) {
	Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return core.NewMemoryStore(core.WithClock(clock))
	})
}
