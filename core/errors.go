package core

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

// Errors that a caller can tell apart with [errors.Is]. Each message has a
// code, such as RL601: docs/errors.md has a section for each code, with what to
// do.
var (
	// ErrNoKey means that the request has no key: the header, cookie or address
	// is missing or empty. Middleware answers 400. FirstOf tries its next key
	// function.
	ErrNoKey = errors.New("ratelimit: the request has no key (RL601)")

	// ErrBadKey means that the request has a key that must not be used, such as
	// an API key sent twice with different values, or a peer's address that
	// middleware has rewritten by what a client sent. Middleware answers 400.
	// FirstOf does not try its next key function.
	ErrBadKey = errors.New("ratelimit: the request's key can't be used (RL602)")

	// ErrUnavailable means that the store could not answer and the policy fails
	// closed. It wraps the cause: a timeout, a refused connection, a key of the
	// wrong type.
	ErrUnavailable = errors.New("ratelimit: store unavailable (RL603)")

	// ErrBreakerOpen means that the limiter did not ask the store, because the
	// store has just failed too often. It is part of Result.Cause, joined with
	// the failure that opened the breaker.
	ErrBreakerOpen = errors.New("ratelimit: circuit breaker is open (RL604)")

	// ErrCost means that a cost is negative.
	ErrCost = errors.New("ratelimit: negative cost (RL605)")

	// ErrUnknownCost is for cost functions to return if they can't determine
	// the cost. The request then costs the smallest Capacity of the policy's
	// limits.
	ErrUnknownCost = errors.New("ratelimit: the cost is not known (RL606)")

	// ErrCapacity means that a wait would never end, because the cost exceeds
	// the Capacity of a limit.
	ErrCapacity = errors.New("ratelimit: cost exceeds the capacity (RL607)")

	// ErrDeadline means that a wait would end after the context's deadline. It
	// did not begin and took nothing.
	ErrDeadline = errors.New("ratelimit: the wait would exceed the context's deadline (RL608)")

	// ErrUnit means that no limit of the policy counts a unit that a request
	// takes.
	ErrUnit = errors.New("ratelimit: no limit counts this unit (RL610)")

	// ErrNoDecision means that Undo or Settle was called for a [Result] that no
	// limiter returned, such as the zero Result.
	ErrNoDecision = errors.New("ratelimit: no limiter returned this result (RL617)")

	// ErrSettled means that Undo or Settle was called again for a [Result]
	// that was undone or settled before, or Hold after both.
	ErrSettled = errors.New("ratelimit: the decision was undone or settled before (RL616)")

	// ErrExpired means that Hold came too late: MaxHold was over, and others
	// have the slots.
	ErrExpired = errors.New("ratelimit: the slots were held for too long, and others have them (RL618)")

	// ErrSlots means that Reserve or Wait was called for a policy with slots,
	// which can't be promised ahead.
	ErrSlots = errors.New("ratelimit: slots can't be reserved: use Acquire (RL619)")
)

// ConfigError is one mistake in a configuration. Constructors report all
// mistakes at once, joined with [errors.Join]. [errors.As] finds the first.
type ConfigError struct {
	Field  string // as written in Go, such as Policy.Limits[1].Capacity; or the name of an option or an argument
	Value  any    // the field's value
	Reason string // what the value must be
}

// configError returns a ConfigError.
func configError(field string, value any, reason string) *ConfigError {
	return &ConfigError{field, value, reason}
}

// Error returns the field, its value, the reason, and the code in parentheses,
// if there is one:
//
//	Policy.Limits[1].Capacity: 0 must be from 1 to 999999999999999 tokens (RL102)
//
// Of the keys of overrides, which can be secret, it shows only what stands
// before the first colon.
func (e *ConfigError) Error() string { return mistake.Text(e.Field, e.Value, e.Reason) }

// Code returns the code of this kind of mistake, such as RL102. docs/errors.md
// has a section for each. It is "" for options of stores and middleware outside
// this module.
func (e *ConfigError) Code() string { return mistake.Code(e.Field, e.Reason) }

// callerDone wraps an error of the caller's own context. It does not mean that
// the store failed.
type callerDone struct{ error }

func (c callerDone) Unwrap() error { return c.error }

// withPage adds the page of codes to err, if that has a code.
func withPage(err error) error {
	if !strings.Contains(err.Error(), "(RL") {
		return err
	}
	return fmt.Errorf("%w\nthe codes are explained in docs/errors.md of github.com/tokenbucket-go/ratelimit", err)
}

// Must returns v, or panics with err if that is not nil. Use it for limiters
// made from constants at start-up.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(withPage(err))
	}
	return v
}
