package core

import (
	"errors"
	"fmt"
	"strconv"
)

// The errors a caller may want to tell apart, with [errors.Is].
var (
	// ErrNoKey says that a request carries no key: the header, cookie or address is missing or
	// empty. Middleware answers 400; FirstOf goes on to its next key function.
	ErrNoKey = errors.New("ratelimit: the request has no key")

	// ErrBadKey says that a request carries a key that nobody should go by, such as an API key that came twice
	// with different values. Middleware answers 400; FirstOf does not go on.
	ErrBadKey = errors.New("ratelimit: the request's key can't be used")

	// ErrUnavailable says that the store could not answer and the policy fails closed. The cause
	// is wrapped: a timeout, a refused connection, a key of the wrong type.
	ErrUnavailable = errors.New("ratelimit: store unavailable")

	// ErrBreakerOpen is in a Result's Cause, beside the failure that led to it, when a store was not asked because it
	// failed too often just before.
	ErrBreakerOpen = errors.New("ratelimit: circuit breaker is open")

	// ErrCost says that a cost is negative.
	ErrCost = errors.New("ratelimit: negative cost")

	// ErrUnknownCost may be returned by a cost function that can't tell: the request costs the whole
	// Capacity then, of the smallest limit.
	ErrUnknownCost = errors.New("ratelimit: the cost is not known")

	// ErrCapacity says that a wait can never end: the cost is above the capacity of a limit.
	ErrCapacity = errors.New("ratelimit: cost exceeds the capacity")

	// ErrDeadline says that a wait would end after the context's deadline, so it was not begun and
	// took nothing.
	ErrDeadline = errors.New("ratelimit: the wait would exceed the context's deadline")

	// ErrPromised says that a wait was not begun because too much is promised to others already.
	ErrPromised = errors.New("ratelimit: too many tokens are promised already")

	// ErrClock says that an injected clock shows an instant that can't be kept in microseconds.
	ErrClock = errors.New("ratelimit: clock out of range")
)

// StateError says that one key of the store can't be used: it holds another type, or bytes that are not a bucket. The
// store itself is well. [Limiter.Reset] makes the key usable again.
type StateError struct{ Reason string }

// Error names the reason.
func (e *StateError) Error() string { return "stored state: " + e.Reason }

// gone is an error of the caller's own context, which says nothing about the store.
type gone struct{ error }

func (g gone) Unwrap() error { return g.error }

// ConfigError is one mistake in a configuration. Constructors report all of them at once, joined
// with [errors.Join]; [errors.As] finds the first.
type ConfigError struct {
	Field  string // as it is written in Go, such as Policy.Limits[1].Capacity; the option, or what was given to a constructor
	Value  any    // what it holds
	Reason string // what it must be
}

// Error names the field and its value and says what is wanted.
func (e *ConfigError) Error() string {
	return e.Field + ": " + e.value() + " " + e.Reason
}

// value is the value as messages show it.
func (e *ConfigError) value() string {
	if s, ok := e.Value.(string); ok {
		return strconv.Quote(clip(s, 80))
	}
	return fmt.Sprint(e.Value)
}

// clip keeps messages short, whatever they quote.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
