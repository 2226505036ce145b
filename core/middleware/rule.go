package middleware

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Rule is one of several limiters of a middleware, with its key function.
type Rule[K any] struct {
	Limiter *core.Limiter
	Key     K
}

type rule[C any] = Rule[func(C) (string, error)]

// ruleMistakes returns those in a rule, whose fields the caller calls so.
func ruleMistakes[C any](r rule[C], limiter, key string) error {
	var errs []error
	if r.Limiter == nil {
		errs = append(errs, &core.ConfigError{Field: limiter, Value: nil, Reason: "must be a limiter from core.NewLimiter"})
	}
	if r.Key == nil {
		errs = append(errs, &core.ConfigError{Field: key, Value: nil, Reason: "must be a key function, such as ByIP()"})
	}
	return errors.Join(append(errs, ArgumentError(r.Key))...)
}

// A function that was made from bad arguments, such as ByHeader(""), must not
// call the user's code before there is a request, but New must find its
// mistake. So every such function is the closure that Invalid returns.
// ArgumentError recognizes it by its code, and calling it returns the mistake.

// Invalid returns a function that only returns mistake. All functions that it
// returns share their code, so the compiler must not inline it.
//
//go:noinline
func Invalid[C, V any](mistake error) func(C) (V, error) {
	return func(C) (none V, err error) { return none, mistake }
}

// ArgumentError returns what is wrong with the arguments that f was made from,
// or nil. The error joins a [core.ConfigError] for each mistake. New panics
// with it.
func ArgumentError[C, V any](f func(C) (V, error)) error {
	if f == nil || reflect.ValueOf(f).Pointer() != reflect.ValueOf(Invalid[C, V](nil)).Pointer() {
		return nil
	}
	var unused C
	_, err := f(unused)
	return err
}

// RefuseArguments panics with the mistakes in the arguments of a constructor.
func RefuseArguments(mistakes error) { core.Must[any](nil, fmt.Errorf("ratelimit: %w", mistakes)) }

// BadArgument returns the key or cost function of a call with a bad argument.
// New panics with a [core.ConfigError] of field, value and reason if it gets
// that function.
func BadArgument[C, V any](field string, value any, reason string) func(C) (V, error) {
	return Invalid[C, V](&core.ConfigError{Field: field, Value: value, Reason: reason})
}
