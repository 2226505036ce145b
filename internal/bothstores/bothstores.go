// Package bothstores runs tests on both kinds of store. It is a package because
// limittest is for modules without go-redis too, and redistest for the tests of
// redisstore itself.
package bothstores

import (
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// Run runs test with each kind of store: newStore returns a new, empty one with
// the given clock.
func Run(t *testing.T, test func(t *testing.T, newStore func(store.Option) core.Store)) {
	t.Run("MemoryStore", func(t *testing.T) {
		test(t, func(clock store.Option) core.Store { return core.NewMemoryStore(clock) })
	})
	t.Run("RedisStore", func(t *testing.T) {
		client := redistest.Client(t)
		client.AddHook(&redistest.Keeper{})
		test(t, func(clock store.Option) core.Store {
			return redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(10*time.Second), clock)
		})
	})
}
