package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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
// again, and if it succeeds all do. What counts is the time since a call was sent: decisions that wait for
// others, in this process, are no failure of Redis. Calls that were under way together and fail count once.
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
	circuit *gobreaker.TwoStepCircuitBreaker[any]
	open    atomic.Bool // until it is closed again
	last    atomic.Pointer[openError]

	opened  atomic.Int64
	absence absence
	outage  outage

	born   time.Time
	failed atomic.Int64 // when a failure was counted last, since born

	logger func() *slog.Logger
}

// absence is for how long the breaker was not closed. One lock holds both fields and the clock's
// reading, so that it never goes back.
type absence struct {
	mu     sync.Mutex
	before time.Duration
	since  time.Time // when it last opened; zero while it is closed
}

// total is for how long, all together.
func (a *absence) total() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now()
}

// now requires that a.mu is held.
func (a *absence) now() time.Duration {
	if a.since.IsZero() {
		return a.before
	}
	return a.before + time.Since(a.since)
}

// begin notes that the breaker opened.
func (a *absence) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = time.Now()
}

// end notes that it closed.
func (a *absence) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before, a.since = a.now(), time.Time{}
}

// openError is the answer while the breaker is open.
type openError struct{ cause error }

func (e *openError) Error() string   { return ErrBreakerOpen.Error() + " after: " + e.cause.Error() }
func (e *openError) Unwrap() []error { return []error{ErrBreakerOpen, e.cause} }

func newBreaker(trip int, pause time.Duration, logger func() *slog.Logger) *breaker {
	b := &breaker{logger: logger, born: time.Now()}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     pause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= trip },
		// A caller who leaves says nothing about the server.
		IsExcluded: func(err error) bool { return errors.As(err, &gone{}) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			open := to != gobreaker.StateClosed
			if b.open.Swap(open) == open {
				return
			}
			if open {
				b.opened.Add(1)
				b.absence.begin()
			} else {
				b.absence.end()
			}
		},
	})
	return b
}

// enter asks to use the server. Whoever is let in must report what came of it; others get an error
// that tells the failure before.
func (b *breaker) enter() (report func(error), err error) {
	return b.enterSince(time.Now())
}

// fail reports a failure of what began at began, outside of any call.
func (b *breaker) fail(began time.Time, err error) {
	if report, shut := b.enterSince(began); shut == nil {
		report(err)
	}
}

// enterSince is enter for what began at began. What was under way together and fails counts once: it may be
// one moment that ended all.
func (b *breaker) enterSince(began time.Time) (report func(error), err error) {
	done, err := b.circuit.Allow()
	if err != nil {
		if last := b.last.Load(); last != nil {
			return nil, last
		}
		return nil, &openError{err}
	}
	return func(err error) {
		switch {
		case err == nil || errors.As(err, &gone{}):
			done(err)
		case began.Sub(b.born) < time.Duration(b.failed.Load()):
			done(gone{err})
		default:
			b.last.Store(&openError{err})
			b.failed.Store(int64(time.Since(b.born)))
			done(err)
		}
		b.log(err)
	}, nil
}

// outage is what was logged of failures.
type outage struct {
	mu    sync.Mutex // guards all below
	told  atomic.Bool
	since time.Time // when it was told last
}

// quiet is for how long a failure that does not open the breaker is not told after another: a network that loses
// a call now and then would fill the log.
const quiet = time.Minute

// log tells, outside of the circuit's lock, of the first failure, and when Redis answers again.
func (b *breaker) log(err error) {
	if err == nil && !b.outage.told.Load() || errors.As(err, &gone{}) {
		return
	}
	b.outage.mu.Lock()
	told := b.outage.told.Load()
	back := err == nil && told && !b.open.Load()
	begins := err != nil && !told && (b.open.Load() || time.Since(b.outage.since) > quiet)
	if begins {
		b.outage.since = time.Now()
	}
	if back || begins {
		b.outage.told.Store(begins)
	}
	b.outage.mu.Unlock()
	if begins {
		b.logger().Warn("ratelimit: Redis does not answer; each policy's OnFailure decides until it is back", "error", err)
	}
	if back {
		b.logger().Warn("ratelimit: Redis is back")
	}
}

// timeoutError is what a call that took too long is answered with.
func timeoutError(after time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", after, context.DeadlineExceeded)
}
