// Package circuit has circuit breakers for the servers of a store, and logs outages. A Breaker opens after so many failed calls
// in a row; it then admits none for a while, and after that one trial. A successful trial closes it.
package circuit

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// CallerDone is the error of a call whose caller stopped waiting. It says nothing about the server, and counts neither as failure
// nor as success.
type CallerDone struct{ Cause error }

func (e CallerDone) Error() string { return e.Cause.Error() }
func (e CallerDone) Unwrap() error { return e.Cause }

// openError is the error of Enter while the breaker is open.
type openError struct{ cause error }

func (e *openError) Error() string   { return core.ErrBreakerOpen.Error() + " after: " + e.cause.Error() }
func (e *openError) Unwrap() []error { return []error{core.ErrBreakerOpen, e.cause} }

// Certain reports that the request will never be executed.
func (*openError) Certain() bool { return true }

// Breaker keeps calls from a server that does not answer, so that callers need not wait for it.
type Breaker struct {
	group   *Group
	circuit *gobreaker.TwoStepCircuitBreaker[any]
	open    atomic.Bool               // open or half-open; written under the group's lock
	retired bool                      // guarded by the group's lock
	last    atomic.Pointer[openError] // what Enter returns while open: it has the last failure that counted
	created time.Time
	failed  atomic.Int64 // when that failure was reported, in ns since created
	outage  outage
}

// New returns a closed breaker. It opens after trip failures in a row, and admits a trial after openFor. The log shows the
// server's address, unless that is "".
func (g *Group) New(server string, trip int, openFor time.Duration, logger func() *slog.Logger) *Breaker {
	b := &Breaker{group: g, created: time.Now()}
	b.outage = outage{group: g, server: server, logger: logger, open: &b.open}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= trip },

		IsExcluded:    func(err error) bool { return err != nil && errors.As(err, &CallerDone{}) },
		OnStateChange: func(_ string, _, to gobreaker.State) { g.changed(b, to != gobreaker.StateClosed) },
	})
	return b
}

// Enter asks to send a call to the server. If it returns no error, the caller must call report once with the call's result.
// Otherwise the error wraps [core.ErrBreakerOpen] and the failure that opened the breaker.
func (b *Breaker) Enter() (report func(error), err error) {
	return b.enterSince(time.Now())
}

// Fail reports the failure of something other than a call that began at began, such as of opening a connection.
func (b *Breaker) Fail(began time.Time, err error) {
	if report, shut := b.enterSince(began); shut == nil {
		report(err)
	}
}

// Open reports whether the breaker is open or half-open.
func (b *Breaker) Open() bool { return b.open.Load() }

// Failures is how many failures have counted since the breaker last opened or closed.
func (b *Breaker) Failures() int { return int(b.circuit.Counts().TotalFailures) }

// State is the state of the circuit. After EndOutage it is closed, whatever the circuit's is.
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

// Count counts n decisions with their result, for the log of outages. It does not change the breaker.
func (b *Breaker) Count(n int, outcome Outcome, err error) { b.outage.note(n, outcome, err) }

// EndOutage ends the outage of b in the group's counts and in the log, because no more calls go to its server. The next failure
// begins another outage.
func (b *Breaker) EndOutage() {
	b.group.changed(b, false)
	b.outage.end()
}

// Retire is EndOutage for a breaker that is no longer used: later changes of its state don't count in the group.
func (b *Breaker) Retire() {
	b.EndOutage()
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	b.retired = true
}

// enterSince is Enter for a call that began at began. Of several calls that were in flight together and fail, one counts, because
// one broken connection may have failed them all. Example: calls begin at 0, 1 and 2 ms, and all fail at 100 ms. The first
// report counts. The others began before that failure, so they don't.
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
		case err == nil || errors.As(err, &CallerDone{}):
			done(err)
		case began.Sub(b.created) < time.Duration(b.failed.Load()):
			done(CallerDone{err}) // began before a failure that counted
		default:
			b.last.Store(&openError{err})
			b.failed.Store(int64(time.Since(b.created)))
			if done(err); b.open.Load() {
				b.outage.began(err)
			}
		}
	}, nil
}
