package adapter

import (
	"fmt"
	"reflect"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A function that was made from bad arguments, such as ByHeader(""), must not call the user's code before there is a
// request, but New must find its mistake. So every such function is the closure that invalid returns. ArgumentError
// recognizes it by its code, and calling it returns the mistake.

// invalid returns a function that only returns mistake. All functions that it returns share their code, so the
// compiler must not inline it.
//
//go:noinline
func invalid[C, V any](mistake error) func(C) (V, error) {
	return func(C) (none V, err error) { return none, mistake }
}

// ArgumentError returns what is wrong with the arguments that f was made from, or nil. The error joins a
// [core.ConfigError] for each mistake. New panics with it.
func ArgumentError[C, V any](f func(C) (V, error)) error {
	if f == nil || reflect.ValueOf(f).Pointer() != reflect.ValueOf(invalid[C, V](nil)).Pointer() {
		return nil
	}
	var unused C
	_, err := f(unused)
	return err
}

// refuseArguments panics with the mistakes in the arguments of a constructor.
func refuseArguments(mistakes error) { core.Must[any](nil, fmt.Errorf("ratelimit: %w", mistakes)) }

// Adapt turns a function on a Request, such as a key function of this package, into one on the framework's request, of which
// request makes a Request. If f was made from bad arguments, so was what Adapt returns: see [ArgumentError].
func Adapt[C, V any](f func(Request) (V, error), request func(C) Request) func(C) (V, error) {
	if err := ArgumentError(f); err != nil {
		return invalid[C, V](err)
	}
	return func(c C) (V, error) { return f(request(c)) }
}

// AdaptPooled is [Adapt] with Requests of a [Pool].
func AdaptPooled[C, X, V any, P requestOf[X]](f func(Request) (V, error), requests *Pool[C, X, P]) func(C) (V, error) {
	if err := ArgumentError(f); err != nil {
		return invalid[C, V](err)
	}
	return func(c C) (V, error) {
		x := requests.Get(c)
		v, err := f(x)
		requests.Put(x)
		return v, err
	}
}

// BadArgument returns the key or cost function of a call with a bad argument. New panics with a [core.ConfigError] of
// field, value and reason if it gets that function.
func BadArgument[C, V any](field string, value any, reason string) func(C) (V, error) {
	return invalid[C, V](&core.ConfigError{Field: field, Value: value, Reason: reason})
}

// badKey is BadArgument for extractors.
func badKey(field string, value any, reason string) KeyFunc {
	return BadArgument[Request, string](field, value, reason)
}
