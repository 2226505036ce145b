package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func peek(t *testing.T, l *core.Limiter) core.Result {
	t.Helper()
	res, err := l.Peek(t.Context(), "k")
	require.NoError(t, err)
	return res
}

func TestPanicInAHookDuringResetIsAFailure(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(panicking{command: "del"})
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout), "api", core.PerDay(5))
	assert.ErrorIs(t, l.Reset(t.Context(), "k"), core.ErrUnavailable)
}

// panicking is a hook that panics on a command.
type panicking struct {
	redistest.Hook

	command string
}

func (h panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == h.command {
			panic("a hook of the application")
		}
		return next(ctx, cmd)
	}
}

func TestWaitReturnsWithItsContextWhileTheStoreIsStuck(t *testing.T) {
	stuck := &stuckStore{MemoryStore: core.NewMemoryStore(), release: make(chan struct{})}
	l := limittest.Limiter(t, stuck, "api", core.PerHour(1))
	limittest.Use(t, l, "k", 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Wait(ctx, "k") }()
	require.Eventually(t, func() bool { return peek(t, l).ResetAfter > time.Hour }, 20*time.Second, time.Millisecond, "premise: Wait has reserved its token")
	stuck.stick.Store(true)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	stuck.stick.Store(false)
	close(stuck.release)
	require.Eventually(t, func() bool { return peek(t, l).ResetAfter <= time.Hour }, 20*time.Second, time.Millisecond, "the reservation of a canceled Wait must be canceled later")
}

// stuckStore is a MemoryStore that answers no request while it is stuck, and
// executes all of them later.
type stuckStore struct {
	*core.MemoryStore

	stick   atomic.Bool
	release chan struct{}
}

func (s *stuckStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if !s.stick.Load() {
		return s.MemoryStore.Do(ctx, r)
	}
	go func() {
		<-s.release
		_, _ = s.MemoryStore.Do(context.Background(), r)
	}()
	<-ctx.Done()
	return store.Answer{}, ctx.Err()
}
