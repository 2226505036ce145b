package breaker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/breaker"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/core/storetest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

func TestConforms(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, clock func() time.Time) core.Store {
		return breaker.New(core.NewMemoryStore(core.WithClock(clock)), time.Minute, 5, time.Second)
	})
}

// remote is a store that fails as its test says.
type remote struct {
	*core.MemoryStore

	fail  func(ctx context.Context) error // nil: it answers
	calls atomic.Int64
}

func (s *remote) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if s.calls.Add(1); s.fail != nil {
		if err := s.fail(ctx); err != nil {
			return store.Answer{}, err
		}
	}
	return s.MemoryStore.Do(ctx, r)
}

const pause = 500 * time.Millisecond

var errRefused = errors.New("connection refused")

func refuse(context.Context) error { return errRefused }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// onRemote runs a test with a limiter whose store opens its breaker after 3
// failures, for the pause, in a synctest bubble.
func onRemote(t *testing.T, test func(t *testing.T, next *remote, s *breaker.Store, allow func() (core.Result, error), logged func() string)) {
	synctest.Test(t, func(t *testing.T) {
		next := &remote{MemoryStore: core.NewMemoryStore()}
		s := breaker.New(next, 100*time.Millisecond, 3, pause)
		var text logtest.Buffer
		s.Config().Logger = slog.New(slog.NewTextHandler(&text, nil))
		l, err := core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1000)}, OnFailure: core.FailClosed})
		require.NoError(t, err)
		test(t, next, s, func() (core.Result, error) { return l.Allow(t.Context(), "k") }, text.String)
	})
}

func TestBreakerOpensAndClosesAgain(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{"refuses": refuse, "hangs": hang} {
		t.Run(name, func(t *testing.T) {
			onRemote(t, func(t *testing.T, next *remote, s *breaker.Store, allow func() (core.Result, error), logged func() string) {
				next.fail = fail
				for range 3 {
					began := time.Now()
					_, err := allow()
					require.ErrorIs(t, err, core.ErrUnavailable)
					require.NotErrorIs(t, err, core.ErrBreakerOpen)
					assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond, "a call ends with the timeout")
				}
				assert.Equal(t, storestats.BreakerOpen, s.Stats().Breaker)
				_, err := allow()
				require.ErrorIs(t, err, core.ErrBreakerOpen)
				assert.EqualValues(t, 3, next.calls.Load(), "an open breaker asks nothing")
				time.Sleep(pause + 1)
				_, err = allow()
				require.NotErrorIs(t, err, core.ErrBreakerOpen, "one call tries the store again")
				require.Error(t, err)
				_, err = allow()
				require.ErrorIs(t, err, core.ErrBreakerOpen, "and fails, so the breaker stays open")
				next.fail = nil
				time.Sleep(pause + 1)
				for range 20 {
					_, err = allow()
					require.NoError(t, err, "a successful trial closes the breaker")
					time.Sleep(100 * time.Millisecond)
				}
				assert.Equal(t, storestats.BreakerClosed, s.Stats().Breaker)
				assert.EqualValues(t, 1, s.Stats().Opened, "a failed trial belongs to the same outage")
				assert.Equal(t, 1, strings.Count(logged(), "RL712"), "one line for the outage: %s", logged())
				assert.Equal(t, 1, strings.Count(logged(), "RL713"), "one for its end: %s", logged())
				assert.NotContains(t, logged(), "Redis", "the store is not on Redis")
			})
		})
	}
}

func TestErrorsThatSayNothingAboutTheStore(t *testing.T) {
	for name, err := range map[string]error{"state": &store.StateError{Reason: "is not a rate limit state"}, "clock": store.ErrClock} {
		t.Run(name, func(t *testing.T) {
			onRemote(t, func(t *testing.T, next *remote, s *breaker.Store, allow func() (core.Result, error), _ func() string) {
				next.fail = func(context.Context) error { return err }
				for range 10 {
					_, got := allow()
					require.ErrorIs(t, got, err)
				}
				assert.Equal(t, storestats.BreakerClosed, s.Stats().Breaker)
			})
		})
	}
	t.Run("the caller's context", func(t *testing.T) {
		onRemote(t, func(t *testing.T, next *remote, s *breaker.Store, _ func() (core.Result, error), _ func() string) {
			next.fail = hang
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_, err := core.Must(core.NewLimiter(s, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1)}})).Allow(ctx, "k")
				require.ErrorIs(t, err, context.DeadlineExceeded)
				cancel()
			}
			assert.Equal(t, storestats.BreakerClosed, s.Stats().Breaker)
		})
	})
}

// A trial that panics must be reported, or no other trial would ever be
// admitted.
func TestPanicOfATrialIsAFailure(t *testing.T) {
	onRemote(t, func(t *testing.T, next *remote, s *breaker.Store, allow func() (core.Result, error), _ func() string) {
		next.fail = refuse
		for range 3 {
			_, _ = allow()
		}
		time.Sleep(pause + 1)
		next.fail = func(context.Context) error { panic("nil map") }
		assert.Panics(t, func() { _, _ = allow() })
		assert.Equal(t, storestats.BreakerOpen, s.Stats().Breaker)
		time.Sleep(pause + 1)
		next.fail = nil
		_, err := allow()
		require.NoError(t, err)
	})
}

func TestValuesOutOfRangeAreReported(t *testing.T) {
	_, err := core.NewLimiter(breaker.New(core.NewMemoryStore(), -1, 0, 0), core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(1)}})
	for _, field := range []string{"breaker.New timeout: -1ns must be above 0", "breaker.New failures: 0 must be at least 1", "breaker.New pause: 0s must be above 0"} {
		require.ErrorContains(t, err, field)
	}
}
