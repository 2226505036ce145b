// Package circuit has circuit breakers for the servers of a store, and logs
// outages. It is a package because package breaker has one and package
// redisstore one for each server.
//
// A [Breaker] opens after so many failed calls in a row. Then it admits no call
// for a while, and after that one trial. A successful trial closes it, and a
// failed one opens it again.
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

// CallerDone is the result of a call that says nothing about the server, such
// as of one whose caller stopped waiting. It does not count.
type CallerDone struct{ Cause error }

func (e CallerDone) Error() string { return e.Cause.Error() }
func (e CallerDone) Unwrap() error { return e.Cause }

// openError is the error of Enter while the breaker is open. cause is the last
// failure that counted.
type openError struct{ cause error }

func (e *openError) Error() string   { return core.ErrBreakerOpen.Error() + " after: " + e.cause.Error() }
func (e *openError) Unwrap() []error { return []error{core.ErrBreakerOpen, e.cause} }

// Certain reports that it is known if the request was executed: it never will
// be.
func (*openError) Certain() bool { return true }

// Breaker stops calls to a server that does not answer, so that callers need
// not wait for it. It is safe for concurrent use.
type Breaker struct {
	group   *Group
	circuit *gobreaker.TwoStepCircuitBreaker[any]
	open    atomic.Bool               // counted as open in the group; written under the group's lock
	retired bool                      // see Retire; guarded by the group's lock
	last    atomic.Pointer[openError] // what Enter returns while the breaker is open
	created time.Time
	failed  atomic.Int64 // when that failure was reported, in ns since created
	outage  outage
	closed  func() // called when a trial has closed the breaker; nil: nothing is
}

// New returns a closed breaker. It opens after so many failures in a row, and
// admits a trial after the pause. The log shows what server returns, the
// server's address, unless that is "".
func (g *Group) New(server func() string, failures int, pause time.Duration, logger func() *slog.Logger) *Breaker {
	b := &Breaker{group: g, created: time.Now()}
	b.outage = outage{group: g, server: server, logger: logger, open: &b.open}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     pause,
		ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= failures },

		IsExcluded:    func(err error) bool { return err != nil && errors.As(err, &CallerDone{}) },
		OnStateChange: func(_ string, _, to gobreaker.State) { g.changed(b, to != gobreaker.StateClosed) },
	})
	return b
}

// Enter asks whether a call may be sent to the server. If so, the caller must
// call report once with the call's result: without the report of a trial, the
// breaker would admit no other. Otherwise the error wraps [core.ErrBreakerOpen]
// and the failure that opened the breaker.
//
// Of calls that fail and were in flight at the same time, one counts, because
// one broken connection may have failed them all. Example: calls begin at 0, 1
// and 2 ms, and all fail at 100 ms. The first report counts. The other calls
// began before that failure, so they don't.
func (b *Breaker) Enter() (report func(error), err error) {
	return b.enterSince(time.Now())
}

// Fail counts a failure that is not a call's, such as of a connection, as Enter
// and its report would have. What failed began at began.
func (b *Breaker) Fail(began time.Time, err error) {
	if report, shut := b.enterSince(began); shut == nil {
		report(err)
	}
}

// Open reports whether the breaker is open or half-open. After EndOutage it
// returns false.
func (b *Breaker) Open() bool { return b.open.Load() }

// Failures returns how many failures have counted since the breaker last opened
// or closed.
func (b *Breaker) Failures() int { return int(b.circuit.Counts().TotalFailures) }

// State returns the state of the breaker. After EndOutage it returns closed.
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

// Count counts n decisions for the log of outages. err is why they failed, or
// nil. It does not change the breaker: see report of Enter.
func (b *Breaker) Count(n int, status Status, err error) { b.outage.note(n, status, err) }

// EndOutage ends an outage because no more calls go to the server: the group
// would count it forever. The circuit itself stays as it is.
func (b *Breaker) EndOutage() {
	b.group.changed(b, false)
	b.outage.unused()
}

// Retire is EndOutage for a breaker that is no longer used: later results of
// its calls don't count in the group.
func (b *Breaker) Retire() {
	b.EndOutage()
	b.group.mu.Lock()
	defer b.group.mu.Unlock()
	b.retired = true
}

// enterSince is Enter for a call that began at began.
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
			wasOpen := b.open.Load()
			if done(err); wasOpen && !b.open.Load() && b.closed != nil {
				b.closed()
			}
		case began.Sub(b.created) < time.Duration(b.failed.Load()):
			done(CallerDone{err}) // began before a failure that counted
		default:
			b.last.Store(&openError{err})
			b.failed.Store(int64(time.Since(b.created)))
			if done(err); b.open.Load() {
				b.outage.breakerOpened(err)
			}
		}
	}, nil
}
