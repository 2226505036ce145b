// Package outage has the circuit breaker of a server, the log of its outages,
// and what could not be given back meanwhile. It is a package because it knows
// nothing of Redis: its tests need no server.
package outage

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

// CallerDone is the result of a call that says nothing about the server, such
// as of one whose caller stopped waiting. It does not count.
type CallerDone struct{ Cause error }

func (e CallerDone) Error() string { return e.Cause.Error() }
func (e CallerDone) Unwrap() error { return e.Cause }

// openError is the error of Enter while the breaker is open. cause is the last
// failure that counted, and was reported at.
type openError struct {
	cause error
	at    time.Time
}

func (e *openError) Error() string   { return core.ErrBreakerOpen.Error() + " after: " + e.cause.Error() }
func (e *openError) Unwrap() []error { return []error{core.ErrBreakerOpen, e.cause} }

// Certain reports that it is known if the request was executed: it never will
// be.
func (*openError) Certain() bool { return true }

// Settings are what a Breaker needs to know.
type Settings struct {
	Failures int           // in a row that open it
	Pause    time.Duration // from its opening to a trial
	Several  bool          // another server may get the keys of this one: see ForgottenAfter
	Totals   *Totals       // of all breakers of a store

	Name     string              // of what is away, such as "Redis"
	Describe func(error) string  // says what is wrong, such as "Redis does not answer"
	Server   string              // the server's address; "": it is not shown
	Logger   func() *slog.Logger // gets a line when an outage begins, and when it ends

	// Send sends requests for which nobody waits, and keeps again those that
	// failed. It returns an error if the server has decided none.
	Send func([]Returned) error
}

// Breaker stops calls to a server that does not answer, so that callers need
// not wait for it. It opens after so many failures in a row. After a pause it
// admits one call as a trial: its success closes the breaker, and its failure
// begins another pause. A Breaker is safe for concurrent use.
//
// An outage begins when the breaker opens. It ends when the breaker has been
// closed for a second, so that a server that fails again and again is one
// outage.
type Breaker struct {
	Settings

	circuit *gobreaker.TwoStepCircuitBreaker[any]
	open    atomic.Bool               // not closed; written under the lock of Totals
	last    atomic.Pointer[openError] // the last failure that counted; nil: none has

	mu     sync.Mutex // guards all below
	asked  time.Time  // when a call last came while the breaker was open
	opened int        // how often it opened
	logged bool       // the beginning of an outage was logged, and its end not yet
	kept   []Returned // what is sent when the server is back
	timed  bool       // a timer will call tick
}

// New returns a closed breaker.
func New(s Settings) *Breaker {
	b := &Breaker{Settings: s}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Timeout:       s.Pause,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= s.Failures },
		IsExcluded:    func(err error) bool { return err != nil && errors.As(err, &CallerDone{}) },
		OnStateChange: func(_ string, _, to gobreaker.State) { s.Totals.changed(b, to != gobreaker.StateClosed) },
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
func (b *Breaker) Enter() (report func(error), err error) { return b.enterSince(time.Now()) }

// Fail counts a failure that is not a call's, such as of a connection, as Enter
// and its report would have. What failed began at began.
func (b *Breaker) Fail(began time.Time, err error) {
	if report, shut := b.enterSince(began); shut == nil {
		report(err)
	}
}

// Open reports whether the breaker is open or half-open.
func (b *Breaker) Open() bool { return b.open.Load() }

// State returns the state of the breaker.
func (b *Breaker) State() storestats.BreakerState {
	switch {
	case !b.Open():
		return storestats.BreakerClosed
	case b.circuit.State() == gobreaker.StateOpen:
		return storestats.BreakerOpen
	}
	return storestats.BreakerHalfOpen
}

// enterSince is Enter for a call that began at began.
func (b *Breaker) enterSince(began time.Time) (report func(error), err error) {
	if b.Open() {
		b.mu.Lock()
		b.asked = time.Now()
		b.mu.Unlock()
	}
	done, err := b.circuit.Allow()
	if err != nil {
		if last := b.last.Load(); last != nil {
			return nil, last
		}
		return nil, &openError{cause: err}
	}
	return func(err error) {
		wasOpen, last := b.Open(), b.last.Load()
		switch {
		case err == nil || errors.As(err, &CallerDone{}):
			done(err)
		case last != nil && began.Before(last.at):
			done(CallerDone{err}) // began before a failure that counted
		default:
			b.last.Store(&openError{err, time.Now()})
			done(err)
		}
		switch isOpen := b.Open(); {
		case isOpen && !wasOpen:
			b.begins(err)
		case !isOpen && wasOpen:
			b.closed()
		}
	}, nil
}

// begins logs that an outage has begun, unless it is the same one.
func (b *Breaker) begins(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = time.Now()
	b.opened++
	b.setTimer()
	if !b.logged {
		b.logged = true
		b.log().Warn("ratelimit: "+b.Describe(err)+"; each policy's OnFailure decides until it is back", "code", "RL712", "error", err)
	}
}

// closedFor is how long the breaker is closed when an outage ends.
const closedFor = time.Second

// closed logs the end of the outage later, and sends what callers have returned
// since the trial did.
func (b *Breaker) closed() {
	b.mu.Lock()
	opened := b.opened
	b.mu.Unlock()
	time.AfterFunc(closedFor, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.opened == opened {
			b.ends("ratelimit: " + b.Name + " is back")
		}
	})
	go func() { _ = b.SendKept() }()
}

// ends logs the end of an outage, once. b.mu is held.
func (b *Breaker) ends(message string) {
	if b.logged {
		b.logged = false
		b.log().Warn(message, "code", "RL713")
	}
}

// ForgottenAfter is the time without calls after which others may have the keys
// of one of several servers: its outage ends then, as no call would ever end it.
const ForgottenAfter = 10 * time.Second

// tick sends what is kept, if the server answers, and ends the outage of a
// server that no call needs any more. It is called once in a pause while there
// is something to do.
func (b *Breaker) tick() {
	b.mu.Lock()
	asked := b.asked
	b.mu.Unlock()
	forgotten := false
	switch {
	case !b.Open():
		_ = b.SendKept()
	case b.Kept():
		if report, err := b.Enter(); err == nil {
			report(b.SendKept())
		}
	case b.Several && time.Since(asked) > ForgottenAfter:
		forgotten = true
		b.Totals.changed(b, false)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if forgotten {
		b.ends("ratelimit: no decision needs the server that did not answer: others may have its keys")
	}
	b.timed = false
	b.setTimer()
}

// setTimer has tick called after a pause, if there is anything to do. b.mu is
// held.
func (b *Breaker) setTimer() {
	if !b.timed && (len(b.kept) > 0 || b.Several && b.Open()) {
		b.timed = true
		time.AfterFunc(b.Pause, b.tick)
	}
}

func (b *Breaker) log() *slog.Logger {
	if b.Server != "" {
		return b.Logger().With("server", b.Server)
	}
	return b.Logger()
}

// Totals counts the outages of all breakers of a store. Its zero value is ready
// for use.
type Totals struct {
	mu     sync.Mutex    // guards all below; the clock is read under it, so that Away never decreases
	opened int64         // see Opened
	open   int           // how many breakers are not closed
	before time.Duration // Away until since, if breakers are not closed now; otherwise all of Away
	since  time.Time
}

// Opened returns how often a breaker opened.
func (t *Totals) Opened() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.opened
}

// Away returns for how long at least one breaker was not closed, in total.
func (t *Totals) Away() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.away()
}

func (t *Totals) away() time.Duration {
	if t.open == 0 {
		return t.before
	}
	return t.before + time.Since(t.since)
}

// changed sets b.open and counts the change, if it is one.
func (t *Totals) changed(b *Breaker, open bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case b.open.Swap(open) == open:
	case open:
		if t.opened++; t.open == 0 {
			t.since = time.Now()
		}
		t.open++
	default:
		t.before = t.away()
		t.since = time.Now()
		t.open--
	}
}
