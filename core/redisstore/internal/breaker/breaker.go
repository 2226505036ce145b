// Package breaker has circuit breakers for the servers of a store, with a log of their outages.
package breaker

import (
	"errors"
	"log/slog"
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
	group   *Group
	circuit *gobreaker.TwoStepCircuitBreaker[any]
	open    atomic.Bool // until it is closed again. Written under the group's lock
	retired bool        // guarded by the group's lock
	last    atomic.Pointer[openError]
	born    time.Time
	failed  atomic.Int64 // when a failure was last counted, since born
	outage  outage
}

// New returns a closed breaker of the group, for a server, whose address the log shows unless it is "". It opens
// after so many failures in a row, and admits a trial after openFor.
func (g *Group) New(server string, trip int, openFor time.Duration, logger func() *slog.Logger) *Breaker {
	b := &Breaker{group: g, born: time.Now()}
	b.outage = outage{server: server, logger: logger, open: &b.open}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= trip },
		// A caller who leaves says nothing about the server.
		IsExcluded:    func(err error) bool { return err != nil && errors.As(err, &CallerLeft{}) },
		OnStateChange: func(_ string, _, to gobreaker.State) { g.changed(b, to != gobreaker.StateClosed) },
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

// State is the state of the circuit, or closed while b rests.
func (b *Breaker) State() storestats.BreakerState {
	if !b.Open() {
		return storestats.BreakerClosed
	}
	switch b.circuit.State() {
	case gobreaker.StateOpen:
		return storestats.BreakerOpen
	case gobreaker.StateHalfOpen:
		return storestats.BreakerHalfOpen
	}
	return storestats.BreakerClosed
}

// Decided notes what became of n decisions, for the log.
func (b *Breaker) Decided(n int, fate Fate, err error) { b.outage.note(n, fate, err) }

// Rest ends an outage of b for its group and the log, until b opens again: nobody asks its server.
func (b *Breaker) Rest() {
	b.group.changed(b, false)
	b.outage.rest()
}

// Retire is Rest for ever.
func (b *Breaker) Retire() {
	b.Rest()
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	b.retired = true
}

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
			if done(err); b.open.Load() {
				b.outage.began(err)
			}
		}
	}, nil
}
