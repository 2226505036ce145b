package adapter

import (
	"errors"
	"reflect"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A key or cost function that was made of bad arguments is of one kind: its code is that of broken's closure,
// and it returns the mistake whatever it is called with. So New finds every mistake in what it is given, and
// nothing of the user's is called before there is a request.

// broken makes the function of a mistake. It is not inlined, so that its closures share their code.
//
//go:noinline
func broken[C, V any](mistake error) func(C) (V, error) {
	return func(C) (none V, err error) { return none, mistake }
}

// Mistake returns what is wrong with the arguments that f was made of, nil if nothing is known to be. It joins
// a [core.ConfigError] for each mistake. New panics with it.
func Mistake[C, V any](f func(C) (V, error)) error {
	if f == nil || reflect.ValueOf(f).Pointer() != reflect.ValueOf(broken[C, V](nil)).Pointer() {
		return nil
	}
	var unused C
	_, err := f(unused)
	return err
}

// Show makes a function of a framework's own of a common one: show presents the framework's request.
func Show[C, V any](f func(Exchange) (V, error), show func(C) Exchange) func(C) (V, error) {
	if err := Mistake(f); err != nil {
		return broken[C, V](err)
	}
	return func(c C) (V, error) { return f(show(c)) }
}

// Bad is what a maker of key or cost functions returns when it was given a bad argument: New panics with a
// [core.ConfigError] of field, value and reason.
func Bad[C, V any](field string, value any, reason string) func(C) (V, error) {
	return broken[C, V](&core.ConfigError{Field: field, Value: value, Reason: reason})
}

// bad is Bad for extractors.
func bad(field string, value any, reason string) KeyFunc {
	return Bad[Exchange, string](field, value, reason)
}

// mistakes are those in the arguments of a middleware.
func mistakes[C any](limiter *core.Limiter, key func(C) (string, error), options Options[C]) error {
	var errs []error
	if limiter == nil {
		errs = append(errs, &core.ConfigError{Field: "New limiter", Value: nil, Reason: "must be a limiter, as core.NewLimiter makes it"})
	}
	if key == nil {
		errs = append(errs, &core.ConfigError{Field: "New key", Value: nil, Reason: "must be a key function, such as ByIP()"})
	}
	return errors.Join(append(errs, Mistake(key), Mistake(options.Cost), Mistake(options.Limits))...)
}
