package redisstore_test

import (
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestMemoryStoreConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return core.NewMemoryStore(core.WithClock(clock))
	})
}

// A store of up to 4,096 keys has one shard. The default store has many.
func TestSmallMemoryStoreConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return core.NewMemoryStore(core.WithClock(clock), core.WithMaxKeys(200))
	})
}

func TestRedisStoreConforms(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return storeOn(client, core.WithClock(clock))
	})
}

// longTimeout is a timeout long enough that a busy machine fails no request.
var longTimeout = redisstore.WithTimeout(20 * time.Second)
