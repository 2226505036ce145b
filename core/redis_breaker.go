package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// defaultTrip is how many failures in a row open the breaker.
	defaultTrip = 5
	// defaultPause is how long it stays open before one decision may try the server again: with the
	// timeout of that try it bounds how long recovery goes unnoticed.
	defaultPause = 500 * time.Millisecond
)

// WithBreaker sets after how many failed calls in a row decisions stop asking Redis, and for how long:
// by default 5, and 500 ms. Meanwhile the policy's OnFailure decides at once. Then one call tries
// again, and if it succeeds all do.
func WithBreaker(failures int, pause time.Duration) RedisOption {
	return redisOption(func(s *RedisStore) {
		if failures < 1 {
			s.errs = append(s.errs, &ConfigError{"WithBreaker failures", failures, "must be at least 1"})
		}
		if pause <= 0 {
			s.errs = append(s.errs, &ConfigError{"WithBreaker pause", pause, "must be above 0"})
		}
		s.trip, s.pause = failures, pause
	})
}

// breaker spares a server that can't answer, and those who would wait for it.
type breaker struct {
	circuit *gobreaker.CircuitBreaker[any]
	last    atomic.Pointer[openError]

	// The circuit reports changes of state under its lock, so they are only noted there; guard logs.
	changed atomic.Bool
	isOpen  atomic.Bool
}

// openError is the answer while the breaker is open.
type openError struct{ cause error }

func (e *openError) Error() string   { return ErrBreakerOpen.Error() + " after: " + e.cause.Error() }
func (e *openError) Unwrap() []error { return []error{ErrBreakerOpen, e.cause} }

// gone says that the caller's own context ended.
type gone struct{ error }

func (g gone) Unwrap() error { return g.error }

func newBreaker(trip int, pause time.Duration) *breaker {
	b := &breaker{}
	b.circuit = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     pause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= trip },
		// A caller who leaves says nothing about the server.
		IsExcluded: func(err error) bool { return errors.As(err, &gone{}) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if (from == gobreaker.StateClosed) != (to == gobreaker.StateClosed) && to != gobreaker.StateHalfOpen {
				b.isOpen.Store(to == gobreaker.StateOpen)
				b.changed.Store(true)
			}
		},
	})
	return b
}

// guard runs call unless the breaker is open.
func (b *breaker) guard(ctx context.Context, call func() (any, error)) (any, error) {
	reply, err := b.circuit.Execute(call)
	switch {
	case err == nil:
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		if last := b.last.Load(); last != nil {
			return nil, last
		}
	case !errors.As(err, &gone{}):
		b.last.Store(&openError{err})
	}
	if b.changed.Load() && b.changed.Swap(false) {
		if b.isOpen.Load() {
			slog.WarnContext(ctx, "ratelimit: Redis does not answer; each policy's OnFailure decides until it is back", "error", err)
		} else {
			slog.InfoContext(ctx, "ratelimit: Redis is back")
		}
	}
	return reply, err
}

// errTimeout is what a call that took too long is answered with.
func errTimeout(after time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", after, context.DeadlineExceeded)
}
