package adapter

import "github.com/tokenbucket-go/ratelimit/core/middleware"

// ArgumentError returns what is wrong with the arguments that f was made from, or nil. The error joins a
// [core.ConfigError] for each mistake. New panics with it.
func ArgumentError[C, V any](f func(C) (V, error)) error { return middleware.ArgumentError(f) }

// Adapt turns a function on a Request, such as a key function of this package, into one on the framework's request, of which
// request makes a Request. If f was made from bad arguments, so was what Adapt returns: see [ArgumentError].
func Adapt[C, V any](f func(Request) (V, error), request func(C) Request) func(C) (V, error) {
	if err := ArgumentError(f); err != nil {
		return middleware.Invalid[C, V](err)
	}
	return func(c C) (V, error) { return f(request(c)) }
}

// AdaptPooled is [Adapt] with Requests of a [Pool].
func AdaptPooled[C, X, V any, P requestOf[X]](f func(Request) (V, error), requests *Pool[C, X, P]) func(C) (V, error) {
	if err := ArgumentError(f); err != nil {
		return middleware.Invalid[C, V](err)
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
	return middleware.BadArgument[C, V](field, value, reason)
}

// badKey is BadArgument for extractors.
func badKey(field string, value any, reason string) KeyFunc {
	return BadArgument[Request, string](field, value, reason)
}
