package core

import (
	"context"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// MemoryStore keeps buckets in this process: for services that run as one
// replica, for tests, and for what each replica limits on its own. It is safe
// for concurrent use, starts no goroutine and needs no closing. A decision on
// up to 4 limits does not allocate, unless the key is new.
//
// It holds a bounded number of keys: see [WithMaxKeys]. If a new key needs
// room, the store drops a full bucket, which decides like one that was never
// used. If none is full, it drops the least recently used one, whose key starts
// full again.
//
// Apps need [NewMemoryStore] and Len. Limiters call the other methods.
type MemoryStore struct {
	memory *store.Memory // nil unless NewMemoryStore returned this
}

// NewMemoryStore returns an empty store. Its options are [WithMaxKeys],
// [WithClock] and [WithLogger]. [NewLimiter] reports mistakes in them.
func NewMemoryStore(options ...store.Option) *MemoryStore {
	return &MemoryStore{store.NewMemory(options...)}
}

// Len returns how many keys the store holds. It can be a few above the bound.
func (s *MemoryStore) Len() int { return s.memory.Len() }

// Do decides a request: see [store.Store]. It waits only for a lock. The error
// is [store.ErrClock] or nil.
func (s *MemoryStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	return s.memory.Do(ctx, r)
}

// DoTogether decides requests in one step: see [store.JointStore].
func (s *MemoryStore) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	return s.memory.DoTogether(ctx, requests)
}

// Reset forgets the bucket of a policy and key, so that it is full. The error
// is always nil. [Limiter.Reset] is for apps.
func (s *MemoryStore) Reset(ctx context.Context, policy, key string) error {
	return s.memory.Reset(ctx, policy, key)
}

// State returns what the store keeps of a bucket: see [store.StateReader].
func (s *MemoryStore) State(ctx context.Context, policy, key string) (store.State, error) {
	return s.memory.State(ctx, policy, key)
}

// Config returns what the options set: see [store.Configured].
func (s *MemoryStore) Config() *store.Config { return s.memory.Config() }

// storeOption is an option of stores.
type storeOption func(*store.Config)

func (o storeOption) ConfigureStore(c *store.Config) { o(c) }

// WithMaxKeys bounds how many keys a [MemoryStore] holds: at least 1, by
// default 1,000,000. A store in Redis refuses it: there maxmemory is the bound.
func WithMaxKeys(n int) store.Option {
	return storeOption(func(c *store.Config) {
		if n < 1 {
			c.ArgumentError("WithMaxKeys", n, "must be at least 1")
			return
		}
		c.MaxKeys = n
	})
}

// WithClock makes a store read the time from now instead of the clock of the
// system or the Redis server. It is for tests: keys in Redis still expire by
// the server's clock. The time must be from 1970 to 17 September 2112: at any
// other, such as the zero [time.Time], decisions fail with [store.ErrClock].
func WithClock(now func() time.Time) store.Option {
	return storeOption(func(c *store.Config) {
		if now == nil {
			c.ArgumentError("WithClock", nil, "must be a function")
			return
		}
		c.Clock = now
	})
}
