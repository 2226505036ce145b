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

// Up to 4,096 keys are one shard; the default bound splits the store.
func TestSmallMemoryStoreConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return core.NewMemoryStore(core.WithClock(clock), core.WithMaxKeys(200))
	})
}

func TestRedisStoreConforms(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return redisstore.New(client, core.WithClock(clock), redisstore.WithPrefix(redistest.Prefix()), patient)
	})
}

// patient keeps a busy machine from turning a test of arithmetic into one of failures.
var patient = redisstore.WithTimeout(20 * time.Second)
