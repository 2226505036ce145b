package core

import (
	"errors"
	"fmt"
	"strconv"
)

// Errors that a caller can tell apart with [errors.Is].
var (
	// ErrNoKey means that the request has no key: the header, cookie or address is missing or empty. Middleware
	// answers 400. FirstOf tries its next key function.
	ErrNoKey = errors.New("ratelimit: the request has no key")

	// ErrBadKey means that the request has a key that must not be used, such as an API key sent twice with
	// different values. Middleware answers 400. FirstOf does not try its next key function.
	ErrBadKey = errors.New("ratelimit: the request's key can't be used")

	// ErrUnavailable means that the store could not answer and the policy fails closed. It wraps the cause: a
	// timeout, a refused connection, a key of the wrong type.
	ErrUnavailable = errors.New("ratelimit: store unavailable")

	// ErrBreakerOpen means that the limiter did not ask the store, because the store has just failed too often. It
	// is part of Result.Cause, joined with the failure that opened the breaker.
	ErrBreakerOpen = errors.New("ratelimit: circuit breaker is open")

	// ErrCost means that a cost is negative.
	ErrCost = errors.New("ratelimit: negative cost")

	// ErrUnknownCost is for cost functions to return if they can't determine the cost. The request then costs the
	// smallest Capacity of the policy's limits.
	ErrUnknownCost = errors.New("ratelimit: the cost is not known")

	// ErrCapacity means that a wait would never end, because the cost exceeds the Capacity of a limit.
	ErrCapacity = errors.New("ratelimit: cost exceeds the capacity")

	// ErrDeadline means that a wait would end after the context's deadline. It did not begin and took nothing.
	ErrDeadline = errors.New("ratelimit: the wait would exceed the context's deadline")

	// ErrPromised means that a wait did not begin, because too many tokens are already promised to others.
	ErrPromised = errors.New("ratelimit: too many tokens are promised already")

	// ErrUnit means that no limit of the policy counts a unit that a request takes.
	ErrUnit = errors.New("ratelimit: no limit counts this unit")

	// ErrApart means that a store can't decide requests in one step, because their buckets are on different servers.
	ErrApart = errors.New("ratelimit: the buckets are on different servers")

	// ErrClock means that an injected clock returned a time outside the range that a store can keep.
	ErrClock = errors.New("ratelimit: clock out of range")
)

// StateError means that one key of the store can't be used: it holds another type, or bytes that are not a bucket.
// Other keys still work. [Limiter.Reset] makes the key usable again.
type StateError struct{ Reason string }

// Error returns the reason.
func (e *StateError) Error() string { return "stored state: " + e.Reason }

// gone wraps an error of the caller's own context. It does not mean that the store failed.
type gone struct{ error }

func (g gone) Unwrap() error { return g.error }

// ConfigError is one mistake in a configuration. Constructors report all mistakes at once, joined with [errors.Join].
// [errors.As] finds the first.
type ConfigError struct {
	Field  string // as written in Go, such as Policy.Limits[1].Capacity; or the name of an option or an argument
	Value  any    // the field's value
	Reason string // what the value must be
}

// Error returns the field, its value and the reason.
func (e *ConfigError) Error() string {
	return e.Field + ": " + e.value() + " " + e.Reason
}

// value returns the value as messages show it.
func (e *ConfigError) value() string {
	if s, ok := e.Value.(string); ok {
		return strconv.Quote(clip(s, 80))
	}
	return fmt.Sprint(e.Value)
}

// clip returns at most n bytes of s, so that messages that quote s stay short.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
