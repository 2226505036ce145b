package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// slowStore takes a second of a synctest bubble's time to cancel.
type slowStore struct{ *core.MemoryStore }

func (s slowStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if r.Action == bucket.Cancel {
		time.Sleep(time.Second)
	}
	return s.MemoryStore.Do(ctx, r)
}

func TestWaitThatEndsGivesItsTokensBackWithoutWaitingForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.NewLimiter(slowStore{core.NewMemoryStore()}, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}, OnFailure: core.FailClosed}))
		fullIn := func() time.Duration {
			res, err := l.Peek(t.Context(), "k")
			require.NoError(t, err)
			return res.ResetAfter
		}
		_, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Wait(ctx, "k") }()
		synctest.Wait()
		require.Equal(t, 2*time.Hour, fullIn(), "premise: it waits")
		canceled := time.Now()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		assert.LessOrEqual(t, time.Since(canceled), 50*time.Millisecond, "it returns soon, however slow the store is")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.LessOrEqual(t, fullIn(), time.Hour, "and its token comes back")
	})
}
