package core_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// spoiled is a store whose state can't be used. It has a configuration, as
// redisstore's has.
type spoiled struct {
	limittest.AwayStore

	config store.Config
}

func (s *spoiled) Config() *store.Config { return &s.config }

// newSpoiled returns a spoiled store that logs to lines. Its errors show the
// key, as those of a store may.
func newSpoiled(lines *logtest.Buffer) *spoiled {
	s := &spoiled{}
	s.Err = fmt.Errorf("get secret-key: %w", &store.StateError{Reason: "is not a rate limit state"})
	s.config.Logger = slog.New(slog.NewTextHandler(lines, nil))
	return s
}

// State that can't be used is reported: by each operation, in every mode, with
// policy, at most once a minute for a store, and counted.
func TestUnreadableStateIsReported(t *testing.T) {
	const key = "secret-key"
	for name, use := range map[string]func(ctx context.Context, l *core.Limiter){
		"Allow":   func(ctx context.Context, l *core.Limiter) { _, _ = l.Allow(ctx, key) },
		"Peek":    func(ctx context.Context, l *core.Limiter) { _, _ = l.Peek(ctx, key) },
		"Reserve": func(ctx context.Context, l *core.Limiter) { _, _ = l.Reserve(ctx, key, 1) },
		"Refund":  func(ctx context.Context, l *core.Limiter) { _ = l.Refund(ctx, key, 1) },
		"Debit":   func(ctx context.Context, l *core.Limiter) { _ = l.Debit(ctx, key, 1) },
		"AllowTogether": func(ctx context.Context, l *core.Limiter) {
			_, _ = core.AllowTogether(ctx, core.Charge{Limiter: l, Key: key})
		},
		"a tier": func(ctx context.Context, l *core.Limiter) {
			_, _ = core.Must(l.WithLimits(core.PerDay(1))).Allow(ctx, key)
		},
	} {
		for _, policy := range []core.Policy{{OnFailure: core.FailLocal}, {OnFailure: core.FailOpen}, {OnFailure: core.FailClosed}, {Shadow: true}} {
			t.Run(fmt.Sprint(name, policy.OnFailure, policy.Shadow), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var lines logtest.Buffer
					store := newSpoiled(&lines)
					policy.Name, policy.Limits = "api", []core.Limit{core.PerDay(100)}
					l := core.Must(core.NewLimiter(store, policy))
					for range 50 {
						use(t.Context(), l)
					}
					assert.EqualValues(t, 50, store.config.Unreadable(), "each is counted")
					assert.Equal(t, 1, lines.Count("RL716"), "at most one a minute is logged: %s", lines.String())
					assert.Regexp(t, `policy=api error="stored state: is not a rate limit state \(RL613\)"`, lines.String())
					assert.NotContains(t, lines.String(), key, "a key can be personal data")

					policy.Name = "other"
					other := core.Must(core.NewLimiter(store, policy))
					use(t.Context(), other)
					assert.Equal(t, 1, lines.Count("RL716"), "a second policy of the store logs no second line: %s", lines.String())
					time.Sleep(time.Minute)
					use(t.Context(), other)
					assert.Equal(t, 2, lines.Count("RL716"), "a minute later there is another line: %s", lines.String())
					assert.Contains(t, lines.String(), "policy=other")
				})
			})
		}
	}
}

func TestOtherFailuresAreNotReportedAsUnreadable(t *testing.T) {
	var lines logtest.Buffer
	store := newSpoiled(&lines)
	l := limittest.Limiter(t, store, "api", core.PerDay(1))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	store.Err = context.Canceled
	_, err := l.Allow(gone, "k")
	require.ErrorIs(t, err, context.Canceled)
	store.Err = core.ErrBreakerOpen
	_, _ = l.Allow(t.Context(), "k")
	assert.Zero(t, store.config.Unreadable())
	assert.Empty(t, lines.String())
}

// A store without a configuration is reported too, on the limiter's logger.
func TestUnreadableStateOfAPlainStoreIsReported(t *testing.T) {
	var lines logtest.Buffer
	store := &limittest.AwayStore{Err: &store.StateError{Reason: "is not a rate limit state"}}
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}}, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))))
	_, _ = l.Allow(t.Context(), "k")
	assert.Contains(t, lines.String(), "RL716")
}
