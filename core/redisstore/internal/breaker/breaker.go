// Package breaker has a circuit breaker for a server, with a log of its outages.
package breaker

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// CallerLeft is the error of a caller's own context. It says nothing about the server.
type CallerLeft struct{ Cause error }

func (e CallerLeft) Error() string { return e.Cause.Error() }
func (e CallerLeft) Unwrap() error { return e.Cause }

// openError is the answer while the breaker is open.
type openError struct{ cause error }

func (e *openError) Error() string   { return core.ErrBreakerOpen.Error() + " after: " + e.cause.Error() }
func (e *openError) Unwrap() []error { return []error{core.ErrBreakerOpen, e.cause} }

// Breaker spares a server that can't answer, and those who would wait for it.
type Breaker struct {
	circuit *gobreaker.TwoStepCircuitBreaker[any]
	open    atomic.Bool // until it is closed again
	last    atomic.Pointer[openError]
	born    time.Time
	failed  atomic.Int64 // when a failure was last counted, since born

	opened  atomic.Int64
	absence absence
	outage  outage
	server  string
	logger  func() *slog.Logger
}

// New returns a closed breaker for a server, whose address the log shows unless it is "". It opens after so many failures in a row, and admits a trial after openFor.
func New(server string, trip int, openFor time.Duration, logger func() *slog.Logger) *Breaker {
	b := &Breaker{server: server, logger: logger, born: time.Now()}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= trip },
		// A caller who leaves says nothing about the server.
		IsExcluded: func(err error) bool { return err != nil && errors.As(err, &CallerLeft{}) },
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

// Enter asks to use the server. Whoever is admitted must report what came of it. Others get an error that wraps the
// failure before.
func (b *Breaker) Enter() (report func(error), err error) {
	return b.enterSince(time.Now())
}

// Fail reports a failure of something that began at began, outside of any call.
func (b *Breaker) Fail(began time.Time, err error) {
	if report, shut := b.enterSince(began); shut == nil {
		report(err)
	}
}

// Open reports whether the breaker is open, or waits for the outcome of a trial.
func (b *Breaker) Open() bool { return b.open.Load() }

// Failures is how many failures have counted since the breaker last opened or closed.
func (b *Breaker) Failures() int { return int(b.circuit.Counts().TotalFailures) }

// State is the state of the circuit.
func (b *Breaker) State() storestats.BreakerState {
	switch b.circuit.State() {
	case gobreaker.StateOpen:
		return storestats.BreakerOpen
	case gobreaker.StateHalfOpen:
		return storestats.BreakerHalfOpen
	}
	return storestats.BreakerClosed
}

// Opened is how often the breaker has opened.
func (b *Breaker) Opened() int64 { return b.opened.Load() }

// Away is for how long the breaker was not closed, all together.
func (b *Breaker) Away() time.Duration { return b.absence.total() }

// enterSince is Enter for something that began at began. Of several that were under way together and fail, one counts:
// a single moment may have ended them all.
func (b *Breaker) enterSince(began time.Time) (report func(error), err error) {
	done, err := b.circuit.Allow()
	if err != nil {
		if last := b.last.Load(); last != nil {
			return nil, last
		}
		return nil, &openError{err}
	}
	return func(err error) {
		switch {
		case err == nil || errors.As(err, &CallerLeft{}):
			done(err)
		case began.Sub(b.born) < time.Duration(b.failed.Load()):
			done(CallerLeft{err}) // began before a failure that counted
		default:
			b.last.Store(&openError{err})
			b.failed.Store(int64(time.Since(b.born)))
			done(err)
		}
		b.log(err)
	}, nil
}

// absence measures how long the breaker was not closed. One lock guards both fields and the reading of the clock, so
// the total never decreases.
type absence struct {
	mu     sync.Mutex
	before time.Duration
	since  time.Time // when the breaker last opened; zero while it is closed
}

// total is how long the breaker was not closed, all together.
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

// end notes that the breaker closed.
func (a *absence) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before, a.since = a.now(), time.Time{}
}

// outage is what was logged of failures.
type outage struct {
	mu     sync.Mutex // guards logged where it is written
	logged atomic.Bool
}

// log logs that the breaker opens, and that Redis answers again. A failure that does not open it is no outage. It runs
// outside of the circuit's lock.
func (b *Breaker) log(err error) {
	if err == nil && !b.outage.logged.Load() || errors.As(err, &CallerLeft{}) {
		return
	}
	b.outage.mu.Lock()
	logged, open := b.outage.logged.Load(), b.open.Load()
	back, begins := err == nil && logged && !open, err != nil && !logged && open
	if back || begins {
		b.outage.logged.Store(begins)
	}
	b.outage.mu.Unlock()
	if begins {
		b.named().Warn("ratelimit: "+Words(err)+"; each policy's OnFailure decides until it is back", "code", "RL712", "error", err)
	}
	if back {
		b.named().Warn("ratelimit: Redis is back", "code", "RL713")
	}
}

// named is the logger, with the server's address.
func (b *Breaker) named() *slog.Logger {
	if b.server == "" {
		return b.logger()
	}
	return b.logger().With("server", b.server)
}
